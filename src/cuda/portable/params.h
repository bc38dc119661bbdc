// What a launch of portable attention is told, and the table of what is built. Plain data, host and device.
//
// A kernel serves one shape: head size (and those padded up to it), kinds of K and V, and a phase. Decode: one token a
// sequence, its heads are the rows of a tile, the context is split. Prefill: tokens and heads are packed into tiles of
// rows, each over its whole context.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "cuda/attention_items.h"
#include "cuda/page_layout.cuh"
#include "kv/format.h"

namespace octavo::cuda::portable {

enum class Phase : std::uint8_t { decode, prefill };

struct AttentionParams {
  const __nv_bfloat16* query = nullptr;
  std::int64_t query_token_stride = 0;
  std::int64_t query_head_stride = 0;
  __nv_bfloat16* out = nullptr;
  std::int64_t out_token_stride = 0;
  std::int64_t out_head_stride = 0;
  const std::byte* pages = nullptr;
  std::int64_t page_bytes = 0;
  PageLayout layout;
  const std::int32_t* page_table = nullptr;
  std::int32_t max_pages = 0;
  const std::int32_t* query_start = nullptr;
  const std::int32_t* context = nullptr;
  const float* key_scales = nullptr;  // a scale a KV head, or null
  const float* value_scales = nullptr;
  const float* sinks = nullptr;  // or null
  float scale = 1.0f;
  float soft_cap = 0.0f;
  std::int32_t window = 0;
  std::int32_t q_heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t group = 0;
  std::int32_t heads_together = 1;  // KV heads whose tiles of a prefill are drawn in turns
  PlanView plan;
};

struct KernelRow {
  const char* name;
  Phase phase;
  std::int32_t width;
  KvElem key;
  KvElem value;
  std::int32_t tile_rows;  // of a block
  std::int32_t threads;
  std::int32_t shared_bytes;
  std::int32_t shared_bytes_a_row = 0;     // more for each row of a decode's tile,
  std::int32_t shared_bytes_at_least = 0;  // and so much at least
  std::int32_t max_splits = kMaxSplits;    // of a decode
  bool stays = false;                      // blocks of a prefill walk over the list of tiles
  std::int32_t piece_floats = 0;           // that such a block leaves of a piece of a tile's pages
  bool products_in_8_bits = false;
  void (*kernel)(AttentionParams);
  void (*join)(AttentionParams, int) = nullptr;  // adds the pieces, for so many blocks that drew them
  std::int32_t join_threads = 0;
};

// By head size. The rows of wide heads also serve 256 where a block has little shared memory.
std::span<const KernelRow> rows_of_64();
std::span<const KernelRow> rows_of_128();
std::span<const KernelRow> rows_of_256();
std::span<const KernelRow> wide_rows_of_256();
std::span<const KernelRow> rows_of_512();

}  // namespace octavo::cuda::portable
