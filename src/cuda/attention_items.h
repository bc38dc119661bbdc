// The work of a step's attention as a device sees it: what PagePlan lists and kernels walk over.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::cuda {

constexpr int kMaxSplits = 32;       // of a sequence
constexpr int kMaxWideSplits = 255;  // where kernels merge them in groups
constexpr int kDecodeRows = 16;
constexpr int kMaxPieces = 8;     // of the pages of a prefill's tile of rows, where several blocks share them
constexpr int kPieceRounds = 3;   // so many times the blocks of a launch have pieces at most
constexpr int kMaxTileSizes = 2;  // of tiles of rows, among the kernels of one head size

struct alignas(16) DecodeItem {
  std::int32_t seq;      // and its row
  std::int32_t context;  // tokens in its cache
  std::int32_t first_page;
  std::uint16_t num_pages;
  std::uint8_t split;
  std::uint8_t splits;
};
struct PrefillItem {
  std::int32_t seq;
  std::int32_t first_row;  // of the sequence's packed rows
};

// Splits of a sequence that wide heads and latents merge as a group, and then the groups; 1: all at once.
constexpr int split_group(int splits) { return splits <= 8 ? 1 : splits <= 64 ? 8 : 16; }

struct PlanView {
  const DecodeItem* decodes = nullptr;
  const PrefillItem* prefills = nullptr;
  const std::int32_t* counts = nullptr;  // decodes, prefills
  float* partial = nullptr;              // [decode of the list, q_head, width]
  float2* partial_sums = nullptr;        // [decode of the list, q_head]: maximum, sum
  std::uint32_t* arrivals = nullptr;     // [decode of the list, 2, kv_head, tile of rows], zero between launches
  std::uint32_t* tickets = nullptr;      // tiles drawn, blocks that found none; zero between launches
  float* pieces = nullptr;  // [kPieceRounds * blocks, piece_floats of the row], where partial is; null: none are cut
};

}  // namespace octavo::cuda
