#include "tool/kernel_trial.h"

#include <algorithm>

#include "tensor/float8.h"

namespace octavo {

std::vector<std::uint16_t> TrialNumbers::normals(std::int64_t count) {
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(count));
  for (std::uint16_t& number : numbers) {
    const std::uint64_t four = bits();  // the sum of four even numbers is close to normal
    const auto sum = static_cast<float>((four & 0xFFFF) + (four >> 16 & 0xFFFF) + (four >> 32 & 0xFFFF) + (four >> 48));
    number = bf16_from_f32((sum - 131070.0f) / 37837.0f);
  }
  return numbers;
}

Result<std::byte*> TrialMemory::reserve(std::size_t bytes) {
  OCTAVO_TRY(Buffer buffer, device_.allocate(bytes, "benching kernels"));
  buffers_.push_back(std::move(buffer));
  return buffers_.back().data();
}

Result<Tensor> TrialMemory::blank(DType dtype, std::initializer_list<std::int64_t> shape) {
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  static const std::vector<std::byte> nan(kPiece, std::byte{0xFF});
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  const auto bytes = static_cast<std::size_t>(dtype_bytes(dtype, elements));
  OCTAVO_TRY(std::byte* const data, reserve(bytes));
  for (std::size_t at = 0; at < bytes; at += kPiece)
    device_.upload(data + at, std::span(nan).first(std::min(kPiece, bytes - at)));
  return Tensor(data, dtype, shape);
}

std::vector<std::uint16_t> downloaded_bf16(Device& device, const Tensor& numbers) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(numbers.elements()));
  device.download(std::as_writable_bytes(std::span(bits)), numbers.raw());
  return bits;
}

bool all_finite(std::span<const std::uint16_t> bf16) {
  return std::none_of(bf16.begin(), bf16.end(), [](std::uint16_t bits) { return (bits & 0x7F80) == 0x7F80; });
}

}  // namespace octavo
