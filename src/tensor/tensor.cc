#include "tensor/tensor.h"

namespace octavo {

Tensor::Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape)
    : data_(static_cast<std::byte*>(data)), dtype_(dtype), rank_(static_cast<int>(shape.size())) {
  check(shape.size() <= kMaxRank, "a tensor has at most four dimensions");
  std::size_t i = 0;
  for (const std::int64_t n : shape) {
    check(n >= 0, "a dimension is negative");
    shape_[i++] = n;
  }
  std::int64_t stride = 1;
  for (int d = rank_ - 1; d >= 0; --d) {
    stride_[static_cast<std::size_t>(d)] = stride;
    stride *= shape_[static_cast<std::size_t>(d)];
  }
  check(rank_ == 0 || size(-1) % dtype_info(dtype).block_elems == 0,
        "the last dimension is not a whole number of blocks");
}

std::int64_t Tensor::elements() const {
  std::int64_t count = rank_ == 0 ? 0 : 1;
  for (int d = 0; d < rank_; ++d) count *= size(d);
  return count;
}

bool Tensor::contiguous() const {
  std::int64_t expected = 1;
  for (int d = rank_ - 1; d >= 0; --d) {
    if (size(d) != 1 && stride(d) != expected) return false;
    expected *= size(d);
  }
  return true;
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t count) const {
  check(rank_ >= 1 && begin >= 0 && count >= 0 && begin + count <= size(0), "rows out of range");
  Tensor part = *this;
  part.data_ += dtype_bytes(dtype_, begin * stride(0));
  part.shape_[0] = count;
  return part;
}

Tensor Tensor::columns(std::int64_t begin, std::int64_t count) const {
  check(rank_ >= 1 && !is_block_type(dtype_) && begin >= 0 && count >= 0 && begin + count <= size(-1),
        "columns out of range");
  Tensor part = *this;
  part.data_ += dtype_bytes(dtype_, begin * stride(-1));
  part.shape_[static_cast<std::size_t>(rank_ - 1)] = count;
  return part;
}

Tensor Tensor::reshaped(std::initializer_list<std::int64_t> shape) const {
  check(contiguous(), "only contiguous numbers can take another shape");
  const Tensor other(data_, dtype_, shape);
  check(other.elements() == elements(), "another shape must hold as many numbers");
  return other;
}

Tensor Tensor::split_last(std::int64_t a, std::int64_t b) const {
  check(rank_ >= 1 && rank_ < kMaxRank && a * b == size(-1), "the last dimension does not split so");
  Tensor part = *this;
  const auto last = static_cast<std::size_t>(rank_ - 1);
  part.rank_ = rank_ + 1;
  part.shape_[last] = a;
  part.shape_[last + 1] = b;
  part.stride_[last + 1] = stride_[last];
  part.stride_[last] = stride_[last] * b;
  return part;
}

Tensor Tensor::every(std::int64_t begin, std::int64_t step) const {
  check(rank_ >= 1 && !is_block_type(dtype_) && begin >= 0 && begin < step && size(-1) % step == 0,
        "no such interleaving");
  Tensor part = *this;
  const auto last = static_cast<std::size_t>(rank_ - 1);
  part.data_ += dtype_bytes(dtype_, begin * stride_[last]);
  part.shape_[last] = shape_[last] / step;
  part.stride_[last] = stride_[last] * step;
  return part;
}

std::string Tensor::describe() const {
  std::string text(dtype_info(dtype_).name);
  text += " [";
  for (int d = 0; d < rank_; ++d) text += (d > 0 ? ", " : "") + std::to_string(size(d));
  return text + "]";
}

}  // namespace octavo
