// Arena: the activations of one step. take() hands out device memory in order, a Scope gives back what was taken inside
// it, so that all layers use the same bytes, and every replay of a step the same addresses.
//
// The size is measured, not guessed: a measuring arena hands out addresses without memory and remembers the highest,
// while the model's forward runs against NullOps. take() beyond the reserved size is our mistake.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "base/result.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace octavo {

class Arena {
 public:
  static Arena measuring() { return Arena(Buffer(), true); }
  static Result<Arena> reserve(Device& device, std::size_t bytes);

  Tensor take(DType dtype, std::initializer_list<std::int64_t> shape);  // uninitialised, 256-byte aligned
  std::size_t peak_bytes() const { return peak_; }

  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() { arena_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::size_t mark_;
  };

 private:
  Arena(Buffer buffer, bool measuring) : buffer_(std::move(buffer)), measuring_(measuring) {}
  Buffer buffer_;
  bool measuring_;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace octavo
