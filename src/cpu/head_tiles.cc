#include "cpu/head_tiles.h"

namespace octavo::cpu {

bool has_head_tiles(const Weight& weight) {
  return weight.parts.size() == 1 && is_tiled(weight) && input_order(weight) == InputOrder::natural;
}

LinearTile head_tile(const Weight& weight, std::int64_t begin, std::int64_t count) {
  LinearTile tile = tile_of(weight.parts.front());
  tile.begin = tile.out_first = begin;
  tile.end = begin + count;
  return tile;
}

}  // namespace octavo::cpu
