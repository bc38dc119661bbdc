// AttentionUnit: a piece of attention for the vector paths: the query heads of one KV head (or some of them) for a few
// tokens of one sequence, over some spans of its cache. Plain data and function declarations only, so that files of any
// instruction set may include it.
//
// The cache is cut at fixed positions: tiles of kTileKeys keys, spans of kSpanKeys. Within a span a row keeps a running
// softmax; spans are folded in ascending order. A row's arithmetic depends on its position and window alone, not on the
// rows beside it, the chunk it came in, the pages' size or which thread took which span.
#pragma once

#include <cstdint>

namespace octavo::cpu {

enum class CacheKind : std::uint8_t { f32, bf16, e4m3, e5m2, int8 };

constexpr int kTileKeys = 64;
constexpr int kSpanKeys = 256;
constexpr int kUnitRows = 192;          // the most rows (tokens x heads) of a unit
constexpr int kUnitNumbers = 96 * 128;  // the most numbers of all its rows, of q or of the result
constexpr int kMaxHeadWidth = 512;
// Of latent caches: numbers of a rope key, and rows of a unit, all of whose heads read the one record.
constexpr int kMaxRopeWidth = 64;
constexpr int kLatentRows = 32;
constexpr int kLatentNumbers = kLatentRows * (kMaxHeadWidth + kMaxRopeWidth);

// One segment of the cache as the unit's KV head sees it.
struct CacheSegment {
  CacheKind kind = CacheKind::bf16;
  int width = 0;
  std::int64_t offset = 0;         // bytes from a page's start to the head's first block
  std::int64_t scale_offset = -1;  // to the head's scales in the page, bf16 [page_size]; -1: none
  int block_scales = 0;            // > 0: they are f32 [page_size, block_scales], one for each kScaleNumbers numbers
  float scale = 1.0f;              // given scale of the head
};

constexpr int kScaleNumbers = 128;

struct AttentionUnit {
  const float* q = nullptr;  // the unit's first token and head
  std::int64_t q_token_stride = 0;
  std::int64_t q_head_stride = 0;
  int tokens = 0;
  int heads = 0;
  std::int64_t position = 0;  // of the first token

  CacheSegment key;    // blocks of 16 tokens, [width, tokens] (page_layout.h); blocks of a page where it is smaller
  CacheSegment value;  // [page_size, width]
  // Where latent.width > 0 the cache has these, both [page_size, width], and the kernel makes the other two of them:
  // keys are latent and rope key side by side, values the latent, f32.
  CacheSegment latent;
  CacheSegment rope;
  const std::uint8_t* pages = nullptr;
  std::int64_t page_bytes = 0;
  int page_size = 0;
  const std::int32_t* page_table = nullptr;  // of the sequence

  // Where the unit that this thread probably takes next begins: its first tile's keys and values; or null.
  const std::uint8_t* next_keys = nullptr;
  const std::uint8_t* next_values = nullptr;

  float scale = 1.0f;
  float soft_cap = 0.0f;
  std::int64_t window = 0;
  const float* sinks = nullptr;  // of the unit's first head, or null

  // Spans [first_span, last_span] of the cache. With `partial` the unit leaves max, sum and numbers of each span and
  // row there, [spans, rows, value.width + 2], for merge_attention; otherwise it has all spans and writes `out`.
  std::int64_t first_span = 0;
  std::int64_t last_span = 0;
  float* partial = nullptr;
  // What the rows have of spans before these, as in `partial` (max -infinity: nothing), brought up to date instead of
  // writing `out`; or null.
  float* carried = nullptr;

  void* out = nullptr;                // the unit's first token and head; bf16 or f32
  std::int64_t out_token_stride = 0;  // elements
  std::int64_t out_head_stride = 0;
  bool out_is_bf16 = false;
};

namespace avx512 {
void attention_unit(const AttentionUnit& unit);
// Folds the partials of all spans of the unit, one after the other in `partial`, into `out`.
void merge_attention(const AttentionUnit& unit);
// Tokens [start, start + count) of the unit's latent cache as floats, scales applied, `latent_stride` and rope.width
// apart; start is a multiple of kTileKeys, count at most that. Tokens up to the next multiple of 16 come along.
void unpack_latents(const AttentionUnit& unit, std::int64_t start, int count, float* latents,
                    std::int64_t latent_stride, float* ropes);
// Sixteen rows, `stride` apart, as a block of keys [width, 16]; width is a multiple of 4.
void turn_keys(const float* rows, std::int64_t stride, int width, float* block);
}  // namespace avx512
namespace avx2 {
void attention_unit(const AttentionUnit& unit);
void merge_attention(const AttentionUnit& unit);
void unpack_latents(const AttentionUnit& unit, std::int64_t start, int count, float* latents,
                    std::int64_t latent_stride, float* ropes);
void turn_keys(const float* rows, std::int64_t stride, int width, float* block);
}  // namespace avx2

}  // namespace octavo::cpu
