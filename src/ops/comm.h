// Comm: the collectives between the ranks of one model. With one rank it is the identity.
//
// Every rank calls the same ones in the same order, and they give every rank the same bits, in every run. A rank that
// leaves a step half-way says so: from then on no rank waits for another, and what collectives give means nothing.
#pragma once

#include "base/result.h"
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

  virtual void give_up() = 0;
  // Called on every rank once all have left the step that was given up: collectives work again, or why they cannot.
  virtual Status restore() = 0;
};

class SingleRank final : public Comm {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(const Tensor&) override {}
  void all_gather_columns(const Tensor&, const Tensor&) override {}
  void give_up() override {}
  Status restore() override { return {}; }
};

}  // namespace octavo
