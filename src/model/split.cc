#include "model/split.h"

#include <algorithm>

namespace octavo {

int heads_of_rank(int heads, RankOf rank) { return std::max(1, heads / rank.size); }

LayerSpec heads_of_rank(LayerSpec layer, RankOf rank) {
  layer.q_heads /= rank.size;
  if (layer.kv_heads > 0) layer.kv_heads = heads_of_rank(layer.kv_heads, rank);
  return layer;
}

Status check_even(RankOf rank, int count, const std::string& what) {
  if (count % rank.size == 0) return {};
  return Error("tensor parallel size " + std::to_string(rank.size) + " does not divide the model's " +
               std::to_string(count) + " " + what);
}

Status check_heads(RankOf rank, int heads, const std::string& what) {
  if (heads % rank.size == 0 || rank.size % heads == 0) return {};
  return Error("tensor parallel size " + std::to_string(rank.size) + " does not divide the model's " +
               std::to_string(heads) + " " + what + " and is no multiple of them");
}

}  // namespace octavo
