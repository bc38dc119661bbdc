// Products with one head's rows of a matrix as tiles of linear_tile.h: what head_linear and expanded_attention of the
// vector paths share.
#pragma once

#include "cpu/weight_tiles.h"

namespace octavo::cpu {

struct HeadPath {
  LinearTileFunction tile;
  LinearTileFunction turned;
  WidenFunction widen;
};

// Whether tiles read this matrix: a single part of a kind that they take, its numbers in their natural order.
bool has_head_tiles(const Weight& weight);

// Its rows [begin, begin + count), their results in columns from 0 on; x, its rows and out are not set.
LinearTile head_tile(const Weight& weight, std::int64_t begin, std::int64_t count);

}  // namespace octavo::cpu
