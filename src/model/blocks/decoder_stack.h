// DecoderStack: the pre-norm stack that most families share: x += mixer(norm(x)); x += mlp(norm(x)); then a last norm
// and the head. A layer's mixer, where tokens see one another, is attention, latent attention or a delta net; its MLP
// may be a choice of experts. A family makes the layers; what only one family has stays in that family's file.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "model/blocks/attention.h"
#include "model/blocks/delta_net.h"
#include "model/blocks/embedding.h"
#include "model/blocks/latent_attention.h"
#include "model/blocks/mlp.h"
#include "model/blocks/moe.h"
#include "model/rope.h"

namespace octavo {

// What all layers of a stack share.
struct DecoderFrame {
  RankOf rank;
  int vocab = 0;
  int hidden = 0;
  bool tied = false;
  Norm norm;  // of every layer and the last, without its weight
  RopeConfig rope;
  int rope_width = 0;
  bool rope_interleaved = false;
};

class DecoderStack {
 public:
  struct Layer {
    std::variant<Attention, LatentAttention, DeltaNet> mixer;
    std::variant<Mlp, Moe> mlp;
  };
  DecoderStack(DecoderFrame frame, std::vector<Layer> layers);

  Status visit(Binder& binder, const std::string& prefix);  // "model"
  Tensor forward(Step& step);
  std::vector<KvScales> kv_scales() const;

 private:
  struct NormedLayer {
    Norm norm_in;
    Norm norm_mid;
    Layer layer;
  };
  DecoderFrame frame_;
  Embedding embedding_;
  std::vector<NormedLayer> layers_;
  Norm norm_out_;
  Head head_;
  RopeRule rope_;
};

// The family's facts completed by what the frame says; the layers are left to the family.
ModelSpec frame_spec(const DecoderFrame& frame, int max_positions, ModelSpec facts);

}  // namespace octavo
