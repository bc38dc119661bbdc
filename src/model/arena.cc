#include "model/arena.h"

#include <algorithm>

namespace octavo {
namespace {

constexpr std::size_t kAlignment = 256;
// A measuring arena counts from here: no address of its tensors is ever read.
constexpr std::uintptr_t kNowhere = std::uintptr_t{1} << 40;

}  // namespace

Result<Arena> Arena::reserve(Device& device, std::size_t bytes) {
  OCTAVO_TRY(Buffer buffer, device.allocate(bytes, "activations"));
  return Arena(std::move(buffer), false);
}

Tensor Arena::take(DType dtype, std::initializer_list<std::int64_t> shape) {
  std::int64_t elements = 1;
  for (const std::int64_t n : shape) elements *= n;
  const std::size_t begin = used_;
  used_ += (static_cast<std::size_t>(dtype_bytes(dtype, elements)) + kAlignment - 1) / kAlignment * kAlignment;
  peak_ = std::max(peak_, used_);
  check(measuring_ || used_ <= buffer_.size(), "a step needs more activation memory than was measured");
  std::byte* base = measuring_ ? reinterpret_cast<std::byte*>(kNowhere) : buffer_.data();
  return Tensor(base + begin, dtype, shape);
}

}  // namespace octavo
