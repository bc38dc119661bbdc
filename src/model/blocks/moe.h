// Moe: a router chooses some experts for each token, and their MLPs' results are weighted and summed; experts that
// every token shares come on top, unweighted. Tensor parallel cuts each expert's inner width; every rank routes alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/blocks/mlp.h"

namespace octavo {

struct MoeConfig {
  int hidden = 0;
  int intermediate = 0;  // of one expert
  int experts = 0;
  int per_token = 0;
  RouteKind route = RouteKind::softmax_all;
  bool renormalise = true;
  float scaling = 1.0f;
  int num_groups = 1;
  int top_groups = 1;
  std::string router = "gate";  // "gate", "router"
  bool choice_bias = false;     // ROUTER.e_score_correction_bias
  bool bias = false;            // of the router and of every expert's matrices
  Activation activation = Activation::silu;
  float limit = 0.0f;
  bool interleaved = false;     // rows of gate and up alternate in one matrix
  bool transposed = false;      // tensors of all experts are [experts, in, out] where they are not packed
  int shared_intermediate = 0;  // of shared_experts; 0: none
};

class Moe {
 public:
  Moe(const MoeConfig& config, RankOf rank);

  Status visit(Binder& binder, const std::string& prefix);  // "model.layers.3.mlp"
  // x, out: [tokens, hidden]
  void forward(Step& step, const Tensor& x, const Tensor& out) const;

 private:
  ExpertsRequest inner_request(const std::string& prefix) const;
  ExpertsRequest down_request(const std::string& prefix) const;

  MoeConfig config_;
  RankOf rank_;
  Weight router_;       // [experts, hidden]
  Tensor router_bias_;  // f32 [experts] or empty
  Tensor choice_bias_;
  std::vector<Weight> gate_up_;  // by expert: [2 intermediate / ranks, hidden]
  Tensor gate_up_bias_;          // f32 [experts, 2 intermediate / ranks] or empty
  std::vector<Weight> down_;     // by expert: [hidden, intermediate / ranks]
  Tensor down_bias_;
  std::optional<Mlp> shared_;
};

}  // namespace octavo
