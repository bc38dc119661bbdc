#include "checkpoint/stored_tensor.h"

#include <cstring>

#include "base/strings.h"
#include "tensor/float8.h"

namespace octavo {
namespace {

template <class Stored, class Convert>
void convert(const StoredTensor& tensor, std::vector<float>& numbers, Convert to_f32) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Stored bits;
    std::memcpy(&bits, tensor.bytes.data() + i * sizeof bits, sizeof bits);
    numbers[i] = to_f32(bits);
  }
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string StoredTensor::describe() const {
  return name + " " + std::string(dtype_info(dtype).name) + " " + shape_text(shape);
}

Result<std::int64_t> stored_bytes(DType dtype, std::span<const std::int64_t> shape) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;  // 8 bytes each stay below 2^62
  if (shape.size() > kMaxStoredRank)
    return Error("it has " + std::to_string(shape.size()) + " dimensions, at most " + std::to_string(kMaxStoredRank) +
                 " are possible");
  std::int64_t elements = 1;
  for (const std::int64_t n : shape) {
    if (n < 0) return Error("its shape " + shape_text(shape) + " has a negative size");
    if (n > 0 && elements > kMaxElements / n) return Error("its shape " + shape_text(shape) + " is too large");
    elements *= n;
  }
  const DTypeInfo info = dtype_info(dtype);
  if (info.block_elems > 1 && (shape.empty() || shape.back() % info.block_elems != 0))
    return Error("its rows in shape " + shape_text(shape) + " are not whole blocks of " +
                 std::to_string(info.block_elems) + " numbers of " + std::string(info.name));
  return dtype_bytes(dtype, elements);
}

Result<std::vector<float>> read_floats(const StoredTensor& tensor) {
  std::vector<float> numbers(tensor.bytes.size() / static_cast<std::size_t>(dtype_info(tensor.dtype).block_bytes));
  switch (tensor.dtype) {
    case DType::f32:
      convert<float>(tensor, numbers, [](float x) { return x; });
      return numbers;
    case DType::f64:
      convert<double>(tensor, numbers, [](double x) { return static_cast<float>(x); });
      return numbers;
    case DType::f16:
      convert<std::uint16_t>(tensor, numbers, f32_from_f16);
      return numbers;
    case DType::bf16:
      convert<std::uint16_t>(tensor, numbers, f32_from_bf16);
      return numbers;
    case DType::e8m0:
      convert<std::uint8_t>(tensor, numbers, f32_from_e8m0);
      return numbers;
    default:
      return Error(tensor.file + ": tensor " + in_quotes(tensor.name) + " is " +
                       std::string(dtype_info(tensor.dtype).name) + ", but must be f32, f16 or bf16",
                   ErrorKind::unsupported);
  }
}

}  // namespace octavo
