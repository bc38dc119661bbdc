// WeightMemory: puts numbers on a device and keeps the buffers. What can stay where the file is mapped is adopted; what
// must move or is not aligned for its dtype goes through a small staging area into memory of the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "tensor/device.h"
#include "tensor/random_matrix.h"
#include "tensor/tensor.h"

namespace octavo {

class WeightMemory {
 public:
  explicit WeightMemory(Device& device) : device_(device) {}

  // `bytes` as they lie in a mapping that `owner` keeps alive; copied only if their address does not fit the dtype.
  Result<const std::byte*> place(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                                 DType dtype);

  // rows x row_bytes that `write(first, count, to)` makes, some rows at a time.
  using WriteRows = std::function<void(std::int64_t first, std::int64_t count, std::byte* to)>;
  Result<const std::byte*> make(std::int64_t rows, std::int64_t row_bytes, const WriteRows& write);

  // The matrices one after another, in one piece: parts of one weight lie side by side.
  Result<std::vector<const std::byte*>> random(std::span<const RandomMatrix> matrices);

  Result<const std::byte*> floats(std::span<const float> numbers);

  std::vector<Buffer> take_buffers();

 private:
  Result<std::byte*> allocate(std::int64_t bytes);

  Device& device_;
  std::vector<Buffer> buffers_;
};

}  // namespace octavo
