// What a decode kernel of Hopper is made of, as constants of its head size and kind of cache, and its shared memory.
//
// Two blocks share a processor where two rings of pages fit, so that one reads while the other merges.
#pragma once

#include "cuda/page_layout.cuh"
#include "kv/format.h"

namespace octavo::cuda::sm90 {

constexpr int kDecodeHeads = 8;  // of a block's tile

template <int kHeadWidth, KvElem kElem>
struct DecodeShape {
  static_assert(kElem == KvElem::e4m3 || kElem == KvElem::bf16);
  static constexpr int kWidth = kHeadWidth;
  static constexpr bool kEightBit = kElem == KvElem::e4m3;
  static constexpr int kElemBytes = elem_bytes(kElem);
  static constexpr int kRowBytes = kWidth * kElemBytes;
  static constexpr int kChunk = kRowBytes < 128 ? kRowBytes : 128;  // bytes of a row that lie together
  static constexpr int kBlockBytes = kPageTokens * kRowBytes;
  static constexpr int kPageBytes = 2 * kBlockBytes;

  static constexpr int kWarpgroups = 2;
  static constexpr int kConsumers = 128 * kWarpgroups;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kBlocks = kPageBytes <= 32 * 1024 ? 2 : 1;  // to a processor
  static constexpr int kStages = 192 * 1024 / kBlocks / kPageBytes;

  // Queries and weights in e4m3 are two numbers each, the second 16 times what the first left, side by side as columns.
  static constexpr int kColumns = kEightBit ? 2 * kDecodeHeads : kDecodeHeads;
  static constexpr float kWeightBits = kEightBit ? 8.0f : 0.0f;  // weights are 2^8 times larger, which cancels
  static constexpr int kWeightRow = kPageTokens * kElemBytes;
  static constexpr int kWeightBytes = kColumns * kWeightRow;  // of a warpgroup
  static constexpr int kPostedRow = kWidth + 4;               // numbers of a row of sums that is handed over

  static constexpr int kQuery = kStages * kPageBytes;
  static constexpr int kWeights = kQuery + kColumns * kRowBytes;
  static constexpr int kPosted = kWeights + kWarpgroups * kWeightBytes;  // [warpgroup but the first, head] rows
  static constexpr int kMaxima = kPosted + (kWarpgroups - 1) * kDecodeHeads * kPostedRow * 4;  // [group, 2, warp, head]
  static constexpr int kFinalMaxima = kMaxima + kWarpgroups * 2 * 4 * kDecodeHeads * 4;        // [group, head]
  static constexpr int kFinalWeights = kFinalMaxima + kWarpgroups * kDecodeHeads * 4;          // [group, warp, head]
  static constexpr int kScales = kFinalWeights + kWarpgroups * 4 * kDecodeHeads * 4;           // [head]
  static constexpr int kLast = kScales + kDecodeHeads * 4;
  static constexpr int kBarriers = kLast + 8;
  static constexpr int kSharedBytes = kBarriers + 2 * kStages * 8;
};

}  // namespace octavo::cuda::sm90
