// Tensor: a view of numbers in some device's memory, with shape and strides. It owns nothing and is copied freely.
// Buffer: memory that is owned; when it goes, the memory goes.
//
// Shapes are row-major: the last dimension is the fastest. Strides are in elements, so that a slice of columns or heads
// is a Tensor too; block types allow no stride but the packed one. Rank is 0 (empty) to 4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace octavo {

constexpr int kMaxRank = 4;

class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape);  // contiguous
  Tensor(const void* data, DType dtype, std::initializer_list<std::int64_t> shape)
      : Tensor(const_cast<void*>(data), dtype, shape) {}

  bool empty() const { return rank_ == 0; }
  int rank() const { return rank_; }
  DType dtype() const { return dtype_; }
  std::int64_t size(int dim) const { return shape_[static_cast<std::size_t>(dim < 0 ? dim + rank_ : dim)]; }
  std::int64_t stride(int dim) const { return stride_[static_cast<std::size_t>(dim < 0 ? dim + rank_ : dim)]; }
  std::int64_t elements() const;
  std::int64_t bytes() const { return dtype_bytes(dtype_, elements()); }  // of a contiguous tensor
  bool contiguous() const;

  std::byte* raw() const { return data_; }
  template <class T>
  T* data() const {
    check(empty() || sizeof(T) == static_cast<std::size_t>(dtype_info(dtype_).block_bytes),
          "element size does not match");
    return reinterpret_cast<T*>(data_);
  }

  // Rows [begin, begin + count) of the first dimension.
  Tensor rows(std::int64_t begin, std::int64_t count) const;
  // Elements [begin, begin + count) of the last dimension; not for block types.
  Tensor columns(std::int64_t begin, std::int64_t count) const;
  // Another shape over the same contiguous numbers.
  Tensor reshaped(std::initializer_list<std::int64_t> shape) const;
  // The last dimension split in two: [.., a * b] -> [.., a, b]. Works on strided rows.
  Tensor split_last(std::int64_t a, std::int64_t b) const;
  // Every step-th element of the last dimension from `begin`: interleaved pairs become two views.
  Tensor every(std::int64_t begin, std::int64_t step) const;

  std::string describe() const;  // "bf16 [12, 576]"

 private:
  std::byte* data_ = nullptr;
  DType dtype_ = DType::f32;
  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> shape_{};
  std::array<std::int64_t, kMaxRank> stride_{};
};

class Buffer {
 public:
  using Release = std::function<void(std::byte*)>;
  Buffer() = default;
  Buffer(std::byte* data, std::size_t size, Release release) : data_(data), size_(size), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer gone(std::move(other));
    swap(gone);
    return *this;
  }
  ~Buffer() {
    if (release_) release_(data_);
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(release_, other.release_);
  }
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Release release_;
};

}  // namespace octavo
