#include "tests/conformance/arena.h"

#include <algorithm>
#include <limits>

#include "tensor/float8.h"

namespace octavo::conformance {

Tensor Arena::bytes(std::span<const std::byte> bytes, DType dtype, Shape shape) {
  auto buffer = device_.allocate(bytes.size(), "a test");
  check(buffer.has_value(), "no memory for a test");
  device_.upload(buffer->data(), bytes);
  const Tensor tensor(buffer->data(), dtype, shape);
  check(dtype == DType::u8 || static_cast<std::size_t>(tensor.bytes()) == bytes.size(),
        "a test's numbers do not fit its shape");
  buffers_.push_back(*std::move(buffer));
  return tensor;
}

Tensor Arena::floats(std::span<const float> numbers, Shape shape, DType dtype) {
  if (dtype == DType::f32) return bytes(std::as_bytes(numbers), dtype, shape);
  check(dtype == DType::bf16 || dtype == DType::f16, "a test's numbers are f32, bf16 or f16");
  std::vector<std::uint16_t> bits(numbers.size());
  std::transform(numbers.begin(), numbers.end(), bits.begin(),
                 [dtype](float x) { return dtype == DType::bf16 ? bf16_from_f32(x) : f16_from_f32(x); });
  return bytes(std::as_bytes(std::span(bits)), dtype, shape);
}

Tensor Arena::ints(std::span<const std::int32_t> numbers, Shape shape) {
  return bytes(std::as_bytes(numbers), DType::i32, shape);
}

Tensor Arena::blank(Shape shape, DType dtype) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  const auto size = static_cast<std::size_t>(count);
  if (dtype == DType::i32) return ints(std::vector<std::int32_t>(size, -2'000'000'000), shape);
  if (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16)
    return floats(std::vector<float>(size, std::numeric_limits<float>::quiet_NaN()), shape, dtype);
  return bytes(std::vector<std::byte>(static_cast<std::size_t>(dtype_bytes(dtype, count)), std::byte{0x7F}), dtype,
               shape);
}

std::vector<std::byte> Arena::read_bytes(const std::byte* data, std::size_t size) const {
  std::vector<std::byte> bytes(size);
  device_.synchronize();
  device_.download(bytes, data);
  return bytes;
}

std::vector<float> Arena::read(const Tensor& tensor) const {
  if (!tensor.contiguous()) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < tensor.size(0); ++i) {
      const Tensor row = tensor.rows(i, 1);
      check(row.contiguous(), "only rows may be strided in a test");
      const std::vector<float> numbers = read(row);
      all.insert(all.end(), numbers.begin(), numbers.end());
    }
    return all;
  }
  const std::vector<std::byte> bytes = read_bytes(tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    if (tensor.dtype() == DType::f32) {
      numbers.push_back(reinterpret_cast<const float*>(bytes.data())[i]);
    } else {
      const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(bytes.data())[i];
      numbers.push_back(tensor.dtype() == DType::bf16 ? f32_from_bf16(bits) : f32_from_f16(bits));
    }
  }
  return numbers;
}

std::vector<std::int32_t> Arena::read_ints(const Tensor& tensor) const {
  const std::vector<std::byte> bytes = read_bytes(tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
  const auto* numbers = reinterpret_cast<const std::int32_t*>(bytes.data());
  return {numbers, numbers + tensor.elements()};
}

}  // namespace octavo::conformance
