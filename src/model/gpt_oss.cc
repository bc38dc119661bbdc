// gpt-oss: windows in every other layer, sinks in all, biases, and experts with a clamped gate. models.md section 6.

#include <algorithm>

#include "model/expert_counts.h"
#include "model/family.h"
#include "model/gguf_form.h"
#include "model/grouped_decoder.h"
#include "model/windows.h"

namespace octavo {
namespace {

// Harmony, the format that these models write, ends an answer with <|return|> and a call of a tool with <|call|>.
constexpr std::int32_t kReturn = 200002;
constexpr std::int32_t kCall = 200012;

// Every other layer slides, the first does.
Result<std::vector<int>> read_gpt_oss_windows(const Json& config, int num_layers) {
  OCTAVO_TRY(const int window, read_count(config, "sliding_window", 1, 1 << 28));
  if (const Json* types = find_member(config, "layer_types")) return windows_of_types(*types, num_layers, window);
  std::vector<int> windows;
  for (int i = 0; i < num_layers; ++i) windows.push_back(i % 2 == 0 ? window : 0);
  return windows;
}

Result<MoeConfig> read_gpt_oss_moe(const FamilyInput& input, const DenseConfig& dense) {
  const std::vector<std::string> names = input.from_gguf ? std::vector<std::string>{"num_experts"}
                                                         : std::vector<std::string>{"num_local_experts", "num_experts"};
  OCTAVO_TRY(const ExpertCounts counts,
             read_expert_counts(input.config, names, {"num_experts_per_tok", "experts_per_token"}));
  OCTAVO_TRY(const double limit, read_number(input.config, "swiglu_limit", 1e-3, 1e6, 7.0));
  MoeConfig moe;
  moe.hidden = dense.hidden;
  moe.intermediate = dense.intermediate;
  moe.experts = counts.experts;
  moe.per_token = counts.per_token;
  moe.route = RouteKind::softmax_chosen;
  moe.router = "router";
  moe.bias = true;
  moe.activation = Activation::clamped_swish;
  moe.limit = static_cast<float>(limit);
  moe.interleaved = !input.from_gguf;
  moe.transposed = !input.from_gguf;
  return moe;
}

// GGUF names the second norm after attention, gives sinks the ending of a weight, and keeps gate and up apart.
std::string gpt_oss_gguf_name(const std::string& name) {
  const std::string found = expert_gguf_name(name);
  if (const std::size_t at = found.find(".ffn_norm."); at != std::string::npos)
    return found.substr(0, at) + ".post_attention_norm.weight";
  if (!name.ends_with(".self_attn.sinks")) return found;
  const std::string sibling = dense_gguf_name(name.substr(0, name.rfind('.')) + ".q_proj.weight");
  return sibling.substr(0, sibling.rfind("attn_q")) + "attn_sinks.weight";
}

void add_harmony_ends(ModelSpec& spec) {
  const auto ends = [&](std::int32_t id) { return std::find(spec.eos.begin(), spec.eos.end(), id) != spec.eos.end(); };
  if (ends(kReturn) && !ends(kCall)) spec.eos.push_back(kCall);
}

Result<std::unique_ptr<Model>> make_gpt_oss(const FamilyInput& input) {
  GroupedDecoderConfig decoder;
  OCTAVO_TRY(decoder.dense, read_dense_config(input.config));
  DenseConfig& dense = decoder.dense;
  OCTAVO_TRY(const double eps, read_number(input.config, "rms_norm_eps", 0, 1, 1e-5));
  dense.norm_eps = static_cast<float>(eps);
  OCTAVO_TRY(dense.attention_bias, read_flag(input.config, "attention_bias", true));
  OCTAVO_TRY(decoder.rope, read_rope(input.config, dense.max_positions, 150000.0));
  if (input.from_gguf) decoder.rope.truncate = false;  // as the models were made; GGUF has no key for it
  OCTAVO_TRY(decoder.windows, read_gpt_oss_windows(input.config, dense.num_layers));
  decoder.sinks = true;
  decoder.norm_rounded_first = false;
  OCTAVO_TRY(const MoeConfig moe, read_gpt_oss_moe(input, dense));
  decoder.moe.assign(static_cast<std::size_t>(dense.num_layers), moe);
  ModelSpec facts = input.facts;
  add_harmony_ends(facts);
  NameMap names;
  if (input.from_gguf) names.file_name = gpt_oss_gguf_name;
  return make_grouped_decoder(decoder, std::move(names), input.rank, std::move(facts));
}

}  // namespace

Family gpt_oss_family() { return {"gpt_oss", "gpt-oss", {"GptOssForCausalLM"}, "gpt-oss", make_gpt_oss}; }

}  // namespace octavo
