// What a prefill kernel of Hopper is made of, as constants of its head size and kind of cache, and its shared memory.
//
// Each of two or three warpgroups takes 64 rows over tiles of 128 tokens (64 where a head of bfloat16 is wide), another
// one brings pages. Registers decide the rest: O, S and P of a warpgroup's rows live in them.
#pragma once

#include "cuda/page_layout.cuh"
#include "kv/format.h"

namespace octavo::cuda::sm90 {

// What consumers are told of one tile of rows, or of a piece of its pages. kv_head -1: no more.
struct PrefillTask {
  std::int32_t first_token;
  std::int32_t num_rows;  // of the sequence: tokens and heads of the group packed
  std::int32_t offset;    // the position of row 0
  std::int32_t first_row;
  std::int32_t kv_head;
  std::int32_t first_page;  // that a row sees
  std::int32_t last_page;
  std::int32_t piece;  // of so many (the second byte), and where the first of them is kept (from bit 16 on)

  __device__ int part() const { return piece & 0xFF; }
  __device__ int parts() const { return piece >> 8 & 0xFF; }
  __device__ int place() const { return piece >> 16; }
};

// Of a query row: what a product of its codes is multiplied with, and its place in the sequence.
struct PrefillRow {
  float scale;
  std::int32_t position;
};

template <int kHeadWidth, KvElem kKey, KvElem kValue>
struct PrefillShape {
  static_assert(kKey == KvElem::int8 ? kValue == KvElem::e4m3 : kKey == kValue);
  static constexpr int kWidth = kHeadWidth;
  static constexpr bool kEightBit = kValue == KvElem::e4m3;
  static constexpr bool kIntegerKeys = kKey == KvElem::int8;  // with a scale a token
  static constexpr int kElemBytes = elem_bytes(kKey);
  static constexpr int kRowBytes = kWidth * kElemBytes;
  static constexpr int kChunk = kRowBytes < 128 ? kRowBytes : 128;  // bytes of a row that lie together
  static constexpr int kBlockBytes = kPageTokens * kRowBytes;

  static constexpr int kTokens = kWidth == 256 && !kEightBit ? 64 : 128;  // of a tile
  static constexpr int kPages = kTokens / kPageTokens;
  static constexpr int kWarpgroups = kRowBytes <= 128 ? 3 : 2;
  static constexpr int kRows = 64 * kWarpgroups;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);
  // Of a thread. Together they are what a block is launched with: more would be waited for without end.
  static constexpr int kRegisters = kWarpgroups == 3 ? 160 : 232;
  static constexpr int kLoaderRegisters = kWarpgroups == 3 ? 32 : 40;
  static constexpr int kStages = kRowBytes <= 64 ? 6 : kRowBytes <= 128 ? 4 : 2;

  // Columns of O of one chain of products; sums of P come from eight columns more, of ones, that lie behind each page
  // of V, or apart where a wider product would not leave the registers.
  static constexpr int kChain = kEightBit && kWidth == 256 ? 64 : kWidth < 128 ? kWidth : 128;
  static constexpr int kChains = kWidth / kChain;
  static constexpr int kOnesBytes = 8 * kPageTokens;
  static constexpr bool kOnesBehindPages = kEightBit && kChains == 1;
  static constexpr bool kOnesApart = kEightBit && kChains > 1;
  static constexpr int kProductRegisters = (kChain + (kOnesBehindPages ? 8 : 0)) / 2;
  static constexpr int kValuePageBytes = kBlockBytes + (kOnesBehindPages ? kOnesBytes : 0);
  // One exponential of so many is taken by the FMA pipe; 0: none.
  static constexpr int kByFma = kOnesBehindPages ? 8 : 0;
  // P is 2^8 times larger in e4m3, which uses its range and cancels.
  static constexpr float kWeightBits = kEightBit ? 8.0f : 0.0f;

  // Of O, maxima and row sums, that a thread holds: what it leaves of a piece.
  static constexpr int kHeldFloats = kWidth / 2 + 4;
  static constexpr int kPieceFloats = kHeldFloats * 128 * kWarpgroups;

  // A query of e4m3 is one number, or two that add up: its code and the code of what that left. A second one halves the
  // error of a row and costs a tenth of the time at 64 numbers a head; wider heads would wait for the tensor core.
  static constexpr int kQueryParts = kKey == KvElem::e4m3 && kWidth == 64 ? 2 : 1;
  static constexpr int kQueryPartBytes = 64 * kRowBytes;
  static constexpr int kQueryBytes = kQueryParts * kQueryPartBytes;  // of a warpgroup
  static constexpr int kKeyTileBytes = kTokens * kRowBytes;
  static constexpr int kValueTileBytes = kPages * kValuePageBytes;
  static constexpr int kKeys = kWarpgroups * kQueryBytes;
  static constexpr int kValues = kKeys + kStages * kKeyTileBytes;
  static constexpr int kOnes = kValues + kStages * kValueTileBytes;
  static constexpr int kScalesOfPage = kIntegerKeys ? 2 * kPageTokens : 0;
  static constexpr int kKeyScales = kOnes + (kOnesApart ? kOnesBytes : 0);  // [stage, page] of a page's tokens
  static constexpr int kRowFacts = kKeyScales + kStages * kPages * kScalesOfPage;
  static constexpr int kTasks = kRowFacts + kRows * static_cast<int>(sizeof(PrefillRow));
  static constexpr int kBarriers = kTasks + 2 * static_cast<int>(sizeof(PrefillTask));
  static constexpr int kDraws = kBarriers + (4 * kStages + 4) * 8;
  static constexpr int kSharedBytes = kDraws + 20;
};

}  // namespace octavo::cuda::sm90
