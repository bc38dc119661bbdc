// Tiles of the cache as pairs of 16-bit integers, for attention of many rows in whole numbers
// (attention_avx512vnni.cc). Vectors are scaled by their lengths, so that products fit 32 bits: queries and keys to
// kRowLength, each number of V over the tile's keys to kColumnLength, unless the largest number of a vector does not
// fit 16 bits then. Plain data and function declarations only, so that files of any instruction set may include it.
#pragma once

#include <cstdint>

#include "cpu/attention_tile.h"

namespace octavo::cpu {

constexpr float kRowLength = 46300;     // its square is below 2^31, and what rounding adds is little
constexpr float kColumnLength = 32600;  // 64 probabilities of 2^13 have a length of 2^16
constexpr float kMostNumber = 32767;
constexpr float kLeastSquare = 1e-30f;  // of a length: shorter vectors, but for 0, are not scaled
constexpr int kTilePairs = kTileKeys / 2;
constexpr int kMaxPairWidth = 256;  // of a head: scores of wider ones would be rounded too far

struct PairTile {
  alignas(64) std::int16_t numbers[kTileKeys * kMaxPairWidth];
  alignas(64) float factors[kMaxPairWidth];  // what a whole number is multiplied with: of each key, or number of V
};

// The first key of a pair of keys: probabilities are packed half by half, in the order of the instruction that does it.
constexpr int first_key(int pair) {
  const int lane = pair % 16;
  return pair / 16 * 32 + lane % 4 / 2 * 16 + lane / 4 * 4 + lane % 2 * 2;
}

namespace avx512 {
// Keys [low, end) of the tile at `start`, all others 0, as [width / 2, kTileKeys, 2]; the factors have all scales but
// the queries'. False where a number is not finite or cannot be scaled.
bool pack_keys(const AttentionUnit& unit, std::int64_t start, int low, int end, PairTile& tile);
// Values of the same, as [kTilePairs, width, 2]. weights [kTileKeys], at most 1: of each key's probability.
bool pack_values(const AttentionUnit& unit, std::int64_t start, int low, int end, PairTile& tile, float* weights);
}  // namespace avx512
namespace avx512vnni {
void attention_unit(const AttentionUnit& unit);
}  // namespace avx512vnni

}  // namespace octavo::cpu
