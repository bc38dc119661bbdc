// Qwen3 dense: as llama, with an RMSNorm over each head of q and k before rope. models.md section 3.

#include "model/family.h"
#include "model/gguf_form.h"
#include "model/grouped_decoder.h"
#include "model/windows.h"

namespace octavo {
namespace {

Result<std::unique_ptr<Model>> make_qwen3(const FamilyInput& input) {
  GroupedDecoderConfig decoder;
  OCTAVO_TRY(decoder.dense, read_dense_config(input.config));
  OCTAVO_TRY(decoder.rope, read_rope(input.config, decoder.dense.max_positions, 10000.0));
  OCTAVO_TRY(decoder.windows, windows_if_told(input.config, decoder.dense.num_layers));
  decoder.qk_norm = true;
  NameMap names;
  if (input.from_gguf) names.file_name = dense_gguf_name;
  return make_grouped_decoder(decoder, std::move(names), input.rank, input.facts);
}

}  // namespace

Family qwen3_family() { return {"qwen3", "Qwen3", {"Qwen3ForCausalLM"}, "qwen3", make_qwen3}; }

}  // namespace octavo
