// What a decode kernel of Hopper is made of, as constants of its head size and kind of cache, and its shared memory.
//
// Two blocks share a processor where two rings of pages fit, so that one reads while the other merges.
#pragma once

#include "cuda/page_layout.cuh"
#include "kv/format.h"

namespace octavo::cuda::sm90 {

constexpr int kDecodeHeads = 8;  // of a block's tile

template <int kHeadWidth, KvElem kKey, KvElem kValue>
struct DecodeShape {
  static_assert(kKey == KvElem::int8 ? kValue == KvElem::e4m3 : kKey == kValue);
  static constexpr int kWidth = kHeadWidth;
  static constexpr bool kEightBit = kValue == KvElem::e4m3;
  static constexpr bool kIntegerKeys = kKey == KvElem::int8;  // with a scale a token
  static constexpr int kElemBytes = elem_bytes(kKey);
  static constexpr int kRowBytes = kWidth * kElemBytes;
  static constexpr int kChunk = kRowBytes < 128 ? kRowBytes : 128;  // bytes of a row that lie together
  static constexpr int kBlockBytes = kPageTokens * kRowBytes;
  static constexpr int kPageBytes = 2 * kBlockBytes;

  static constexpr int kWarpgroups = 2;
  static constexpr int kConsumers = 128 * kWarpgroups;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kBlocks = kPageBytes <= 32 * 1024 ? 2 : 1;  // to a processor
  static constexpr int kPages = kPageBytes <= 8 * 1024 ? 2 : 1;    // taken at once: the waits are a page's
  static constexpr int kPlaceBytes = kPages * kPageBytes;          // of the ring
  static constexpr int kStages = 192 * 1024 / kBlocks / kPlaceBytes;
  static constexpr int kTurns = kStages % kWarpgroups == 0 ? kStages : kWarpgroups * kStages;  // of barriers

  // Queries and weights in 8 bits are two numbers each, the second so many times what the first left, side by side as
  // columns.
  static constexpr int kColumns = kEightBit ? 2 * kDecodeHeads : kDecodeHeads;
  static constexpr float kWeightBits = kEightBit ? 8.0f : 0.0f;  // weights are 2^8 times larger, which cancels
  static constexpr float kQueryRest = kIntegerKeys ? 254.0f : 16.0f;
  static constexpr int kWeightRow = kPageTokens * kElemBytes;
  static constexpr int kWeightBytes = kColumns * kWeightRow;  // of a page
  static constexpr int kPostedRow = kWidth + 4;               // numbers of a row of sums that is handed over

  static constexpr int kQuery = kStages * kPlaceBytes;
  static constexpr int kWeights = kQuery + kColumns * kRowBytes;
  static constexpr int kPosted =
      kWeights + kWarpgroups * kPages * kWeightBytes;  // [warpgroup but the first, head] rows
  static constexpr int kMaxima = kPosted + (kWarpgroups - 1) * kDecodeHeads * kPostedRow * 4;  // [group, 2, warp, head]
  static constexpr int kFinalMaxima = kMaxima + kWarpgroups * 2 * 4 * kDecodeHeads * 4;        // [group, head]
  static constexpr int kFinalWeights = kFinalMaxima + kWarpgroups * kDecodeHeads * 4;          // [group, warp, head]
  static constexpr int kScales = kFinalWeights + kWarpgroups * 4 * kDecodeHeads * 4;           // [head]
  static constexpr int kLast = kScales + kDecodeHeads * 4;
  static constexpr int kScalesOfPage = kIntegerKeys ? 2 * kPageTokens : 0;
  static constexpr int kKeyScales = (kLast + 8 + 15) / 16 * 16;  // [place of the ring, page] of a page's tokens
  static constexpr int kBarriers = kKeyScales + kStages * kPages * kScalesOfPage;
  static constexpr int kSharedBytes = kBarriers + 2 * kTurns * 8;
};

}  // namespace octavo::cuda::sm90
