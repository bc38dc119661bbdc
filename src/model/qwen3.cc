// Qwen3 dense: as llama, with an RMSNorm over each head of q and k before rope. models.md section 3.

#include "model/dense_model.h"
#include "model/family.h"
#include "model/gguf_form.h"

namespace octavo {
namespace {

// Layers slide only where use_sliding_window is true: as layer_types says, else from max_window_layers on.
Result<std::vector<int>> read_windows(const Json& config, int num_layers) {
  std::vector<int> windows(static_cast<std::size_t>(num_layers), 0);
  OCTAVO_TRY(const bool sliding, read_flag(config, "use_sliding_window", false));
  if (!sliding) return windows;
  OCTAVO_TRY(const int window, read_count(config, "sliding_window", 1, 1 << 28));
  if (const Json* types = find_member(config, "layer_types")) {
    if (!types->is_array() || types->size() != windows.size())
      return Error("\"layer_types\" must be a list of " + std::to_string(num_layers) + " names");
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const std::string kind = (*types)[i].is_string() ? (*types)[i].get<std::string>() : to_text((*types)[i]);
      if (kind == "sliding_attention")
        windows[i] = window;
      else if (kind != "full_attention")
        return Error("\"layer_types\" holds \"" + kind + "\"; known: full_attention, sliding_attention");
    }
    return windows;
  }
  OCTAVO_TRY(const int first, read_count(config, "max_window_layers", 0, 1 << 20, num_layers));
  for (int i = first; i < num_layers; ++i) windows[static_cast<std::size_t>(i)] = window;
  return windows;
}

Result<std::unique_ptr<Model>> make_qwen3(const FamilyInput& input) {
  DecoderConfig decoder;
  OCTAVO_TRY(decoder.dense, read_dense_config(input.config));
  OCTAVO_TRY(decoder.rope, read_rope(input.config, decoder.dense.max_positions, 10000.0));
  OCTAVO_TRY(decoder.windows, read_windows(input.config, decoder.dense.num_layers));
  decoder.qk_norm = true;
  OCTAVO_TRY(ModelSpec spec, decoder_spec(decoder, input.rank, input.facts));
  NameMap names;
  if (input.from_gguf) names.file_name = dense_gguf_name;
  return std::unique_ptr<Model>(std::make_unique<DenseModel>(std::move(spec), decoder, std::move(names), input.rank));
}

}  // namespace

Family qwen3_family() { return {"qwen3", {"Qwen3ForCausalLM"}, "qwen3", make_qwen3}; }

}  // namespace octavo
