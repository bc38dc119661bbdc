// Decoder: the pre-norm stack that llama and its relatives share: x += attention(norm(x)); x += mlp(norm(x)), where a
// layer's MLP may be a choice of experts; then a last norm and the head. A family says its sizes and switches; what
// only one family has stays in that family's file.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/blocks/attention.h"
#include "model/blocks/embedding.h"
#include "model/blocks/mlp.h"
#include "model/blocks/moe.h"
#include "model/config.h"
#include "model/rope.h"

namespace octavo {

struct DecoderConfig {
  DenseConfig dense;
  RopeConfig rope;
  bool qk_norm = false;
  bool sinks = false;
  bool norm_rounded_first = true;             // NormRule
  std::vector<int> windows;                   // per layer; 0: full
  std::vector<std::optional<MoeConfig>> moe;  // per layer, or empty: no layer has experts
};

class Decoder {
 public:
  Decoder(const DecoderConfig& config, RankOf rank);

  Status visit(Binder& binder, const std::string& prefix);  // "model"
  Tensor forward(Step& step);
  std::vector<KvScales> kv_scales() const;

 private:
  struct Layer {
    Norm norm_in;
    Attention attention;
    Norm norm_mid;
    std::variant<Mlp, Moe> mlp;
  };
  DecoderConfig config_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  Norm norm_out_;
  Head head_;
  RopeRule rope_;
};

// The family's facts completed by the sizes of such a model. Refuses a tensor parallel size that does not divide it.
Result<ModelSpec> decoder_spec(const DecoderConfig& config, RankOf rank, ModelSpec facts);

}  // namespace octavo
