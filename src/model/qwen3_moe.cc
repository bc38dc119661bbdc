// Qwen3 with experts: attention as qwen3; softmax over all experts, then the best few. models.md section 4.

#include <algorithm>

#include "base/shown.h"
#include "model/expert_counts.h"
#include "model/family.h"
#include "model/gguf_form.h"
#include "model/grouped_decoder.h"
#include "model/windows.h"

namespace octavo {
namespace {

// Layer i has experts unless mlp_only_layers names it or decoder_sparse_step leaves it out.
Result<std::vector<bool>> read_sparse_layers(const Json& config, int num_layers) {
  OCTAVO_TRY(const int step, read_count(config, "decoder_sparse_step", 1, 1 << 20, 1));
  std::vector<bool> sparse;
  for (int i = 0; i < num_layers; ++i) sparse.push_back((i + 1) % step == 0);
  const Json* dense = find_member(config, "mlp_only_layers");
  if (dense == nullptr) return sparse;
  const auto is_layer = [&](const Json& i) {
    return i.is_number_integer() && i.get<std::int64_t>() >= 0 && i.get<std::int64_t>() < num_layers;
  };
  if (!dense->is_array() || !std::all_of(dense->begin(), dense->end(), is_layer))
    return Error("\"mlp_only_layers\" must be a list of layers below " + std::to_string(num_layers) + ", but is " +
                 shown(*dense));
  for (const Json& i : *dense) sparse[i.get<std::size_t>()] = false;
  return sparse;
}

// No experts at all: "num_experts" is 0.
bool has_no_experts(const Json& config) {
  const Json* count = find_member(config, "num_experts");
  return count != nullptr && count->is_number_integer() && count->get<std::int64_t>() == 0;
}

Result<MoeConfig> read_moe(const Json& config, int hidden, bool from_gguf) {
  MoeConfig moe;
  moe.hidden = hidden;
  OCTAVO_TRY(const ExpertCounts counts,
             read_expert_counts(config, {"num_experts", "num_local_experts"}, {"num_experts_per_tok"}));
  moe.experts = counts.experts;
  moe.per_token = counts.per_token;
  OCTAVO_TRY(moe.intermediate, read_count(config, "moe_intermediate_size", 1, 1 << 20));
  moe.route = RouteKind::softmax_all;
  OCTAVO_TRY(moe.renormalise, read_flag(config, "norm_topk_prob", from_gguf));  // GGUF has no key for it
  return moe;
}

Result<std::unique_ptr<Model>> make_qwen3_moe(const FamilyInput& input) {
  GroupedDecoderConfig decoder;
  OCTAVO_TRY(decoder.dense, read_dense_config(input.config));
  const int num_layers = decoder.dense.num_layers;
  OCTAVO_TRY(decoder.rope, read_rope(input.config, decoder.dense.max_positions, 10000.0));
  OCTAVO_TRY(decoder.windows, windows_if_told(input.config, num_layers));
  decoder.qk_norm = true;
  if (!has_no_experts(input.config)) {
    OCTAVO_TRY(const MoeConfig moe, read_moe(input.config, decoder.dense.hidden, input.from_gguf));
    OCTAVO_TRY(const std::vector<bool> sparse, read_sparse_layers(input.config, num_layers));
    for (const bool has_experts : sparse) decoder.moe.push_back(has_experts ? std::optional(moe) : std::nullopt);
  }
  NameMap names;
  if (input.from_gguf) names.file_name = expert_gguf_name;
  return make_grouped_decoder(decoder, std::move(names), input.rank, input.facts);
}

}  // namespace

Family qwen3_moe_family() {
  return {"qwen3_moe", "Qwen3 with experts", {"Qwen3MoeForCausalLM"}, "qwen3moe", make_qwen3_moe};
}

}  // namespace octavo
