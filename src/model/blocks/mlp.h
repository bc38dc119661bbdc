// Mlp: down(activation(gate x) * up x), silu unless the family says otherwise.
#pragma once

#include <string>

#include "model/model.h"

namespace octavo {

class Mlp {
 public:
  Mlp(int hidden, int intermediate, bool bias, RankOf rank, Activation activation = Activation::silu)
      : hidden_(hidden), intermediate_(intermediate), bias_(bias), rank_(rank), activation_(activation) {}

  Status visit(Binder& binder, const std::string& prefix);  // "model.layers.3.mlp"
  // x, out: [tokens, hidden]
  void forward(Step& step, const Tensor& x, const Tensor& out) const;
  // This rank's share of it, not yet summed over the ranks.
  void partial(Step& step, const Tensor& x, const Tensor& out) const;

 private:
  int hidden_;
  int intermediate_;  // of the whole model
  bool bias_;
  RankOf rank_;
  Activation activation_;
  Weight gate_up_;  // [2 intermediate / ranks, hidden]
  Tensor gate_up_bias_;
  Weight down_;  // [hidden, intermediate / ranks]
  Tensor down_bias_;
};

}  // namespace octavo
