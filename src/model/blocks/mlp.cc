#include "model/blocks/mlp.h"

#include <array>

namespace octavo {

Status Mlp::visit(Binder& binder, const std::string& prefix) {
  const std::array<PartRequest, 2> parts = {
      {{prefix + ".gate_proj", intermediate_, Cut::rows}, {prefix + ".up_proj", intermediate_, Cut::rows}}};
  OCTAVO_TRY(binder.weight(gate_up_, parts, hidden_));
  const PartRequest down{prefix + ".down_proj", hidden_, Cut::columns};
  OCTAVO_TRY(binder.weight(down_, {&down, 1}, intermediate_));
  if (bias_) {
    std::array<PartRequest, 2> biases = parts;
    for (PartRequest& bias : biases) bias.name += ".bias";
    OCTAVO_TRY(binder.vectors(gate_up_bias_, biases));
    OCTAVO_TRY(binder.vector(down_bias_, prefix + ".down_proj.bias", hidden_));
  }
  return {};
}

void Mlp::forward(Step& step, const Tensor& x, const Tensor& out) const {
  partial(step, x, out);
  step.comm.all_reduce(out);
}

void Mlp::partial(Step& step, const Tensor& x, const Tensor& out) const {
  const Arena::Scope scope(step.arena);
  const std::int64_t width = gate_up_.out / 2;
  const Tensor gate_up = step.take(x.size(0), 2 * width);
  const Tensor inner = step.take(x.size(0), width);
  step.ops.gated_linear(
      {.x = x, .weight = gate_up_, .bias = gate_up_bias_, .kind = activation_, .both = gate_up, .out = inner});
  step.ops.linear({inner, down_, rank_.rank == 0 ? down_bias_ : Tensor(), out});
}

}  // namespace octavo
