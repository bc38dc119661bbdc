// Llama 3.x and its relatives (SmolLM2): grouped-query attention with rope, silu MLP. models.md section 2.

#include "model/family.h"
#include "model/gguf_form.h"
#include "model/grouped_decoder.h"

namespace octavo {
namespace {

// llama.cpp's converter stores the rotary rows of q and k of this family, and only of this one, as adjacent pairs.
NameMap llama_names(bool from_gguf, int head_dim) {
  NameMap names;
  if (from_gguf) {
    names.file_name = dense_gguf_name;
    names.paired_rows = [head_dim](const std::string& name) {
      return name.find(".q_proj") != std::string::npos || name.find(".k_proj") != std::string::npos ? head_dim : 0;
    };
  }
  names.ignorable = [](const std::string& name) {
    return name == "rope_freqs.weight" || name.ends_with(".rotary_emb.inv_freq");
  };
  return names;
}

Result<std::unique_ptr<Model>> make_llama(const FamilyInput& input) {
  GroupedDecoderConfig decoder;
  OCTAVO_TRY(decoder.dense, read_dense_config(input.config));
  OCTAVO_TRY(decoder.rope, read_rope(input.config, decoder.dense.max_positions, 10000.0));
  decoder.windows.assign(static_cast<std::size_t>(decoder.dense.num_layers), 0);
  return make_grouped_decoder(decoder, llama_names(input.from_gguf, decoder.dense.head_dim), input.rank, input.facts);
}

}  // namespace

Family llama_family() { return {"llama", "Llama 3.x, SmolLM2", {"LlamaForCausalLM"}, "llama", make_llama}; }

}  // namespace octavo
