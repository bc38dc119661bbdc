// Arena: a test's tensors in the memory of one device. Blank ones are filled with NaN (integers with a large negative),
// so that a result that nobody wrote, and a workspace that somebody read, show.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "tensor/device.h"
#include "tensor/tensor.h"

namespace octavo::conformance {

using Shape = std::initializer_list<std::int64_t>;

class Arena {
 public:
  explicit Arena(Device& device) : device_(device) {}

  Tensor floats(std::span<const float> numbers, Shape shape, DType dtype = DType::f32);  // rounded to the dtype
  Tensor ints(std::span<const std::int32_t> numbers, Shape shape);
  Tensor bytes(std::span<const std::byte> bytes, DType dtype, Shape shape);
  Tensor blank(Shape shape, DType dtype = DType::f32);

  std::vector<float> read(const Tensor& tensor) const;  // any strides
  std::vector<std::int32_t> read_ints(const Tensor& tensor) const;
  std::vector<std::byte> read_bytes(const std::byte* data, std::size_t size) const;

  template <class T>
  T* put(std::span<const T> values) {
    return reinterpret_cast<T*>(
        bytes(std::as_bytes(values), DType::u8, {static_cast<std::int64_t>(values.size_bytes())}).raw());
  }

 private:
  Device& device_;
  std::vector<Buffer> buffers_;
};

}  // namespace octavo::conformance
