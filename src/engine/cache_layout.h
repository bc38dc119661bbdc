// CacheLayout: which layers keep what in which cache group, before any number of pages is known; and how that is
// reported. Made from the model's facts, the flags and the scales that the checkpoint gave.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "kv/group.h"
#include "kv/scales.h"
#include "model/spec.h"
#include "ops/ops.h"

namespace octavo {

// What a layer that keeps K and V of its own, or a latent, leaves of a token on a rank with these heads of it; compute:
// what `auto` means. Refuses what the formats refuse. Other layers leave nothing of a token.
Result<KvFormat> layer_format(const LayerSpec& layer, const KvCacheChoice& choice, KvElem compute,
                              const KvScales& scales);

struct CacheLayoutInput {
  const ModelSpec& spec;
  int num_ranks = 1;  // that share its heads: the layout is that of one of them
  KvCacheChoice choice;
  std::vector<std::string> skip_layers;  // --kv-cache-dtype-skip-layers
  DType compute = DType::bf16;
  const std::vector<KvScales>& scales;  // by model layer, of a rank's heads
  int page_size = 64;
};

struct CacheLayout {
  std::vector<CacheGroup> groups;            // the full one first, those of states last
  std::vector<AttentionShape> group_shapes;  // of the first layer of each group that is attended
  std::vector<AttentionShape> layer_shapes;  // of each layer that attends, equal ones once
  std::vector<LayerFacts> layers;            // by model layer
  std::vector<std::string> report;           // a line for each run of equal layers
  int num_uncalibrated = 0;                  // layers whose 8 bits need a scale and have none
  int num_unused_scales = 0;                 // layers whose scales the chosen cache does not need
};

Result<CacheLayout> make_cache_layout(const CacheLayoutInput& input);

}  // namespace octavo
