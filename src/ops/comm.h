// Comm: the collectives between the ranks of one model. With one rank it is the identity.
#pragma once

#include "tensor/tensor.h"

namespace octavo {

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce(const Tensor& x) = 0;  // sum over ranks, in place, contiguous
  // out [rows, size * n] = every rank's x [rows, n] side by side in order of rank. Called only when size > 1.
  virtual void all_gather_columns(const Tensor& x, const Tensor& out) = 0;
};

class SingleRank final : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(const Tensor&) override {}
  void all_gather_columns(const Tensor&, const Tensor&) override {}
};

}  // namespace octavo
