// Models whose layers are all grouped-query attention and an MLP, as llama and its relatives: a family says their sizes
// and switches.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/config.h"
#include "model/decoder_model.h"

namespace octavo {

struct GroupedDecoderConfig {
  DenseConfig dense;
  RopeConfig rope;
  bool qk_norm = false;
  bool sinks = false;
  bool norm_rounded_first = true;             // NormRule
  std::vector<int> windows;                   // per layer; 0: full
  std::vector<std::optional<MoeConfig>> moe;  // per layer, or empty: no layer has experts
};

// facts are completed by the sizes. Refuses a tensor parallel size that does not divide them.
Result<std::unique_ptr<Model>> make_grouped_decoder(const GroupedDecoderConfig& config, NameMap names, RankOf rank,
                                                    ModelSpec facts);

}  // namespace octavo
