// KvFormat: the record that one token leaves in one layer. Bytes a token, page size, capacity, what advise prints and
// what a kernel strides over are computed from this value and from nowhere else. Byte-exact description:
// docs/kv-formats.md.
//
// A format is a list of up to four segments. Grouped-query attention has a key and a value segment, latent attention a
// latent and a rope segment. Each has its own element kind, grain of scale and transform. Plain types: device code
// reads it. Decisions and their figures (why int8 K, why a rotation, why no rotation of V): kv-formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo {

enum class KvElem : std::uint8_t { f32, bf16, e4m3, e5m2, int8 };
enum class KvPart : std::uint8_t { key, value, latent, rope };

// What one scale covers. tensor and head: given from outside (checkpoint, calibration), value = code * scale.
// token_head: computed by the writer, a bf16 that lies in the page; the grain of int8. token_block: likewise, an f32
// for each kScaleBlock numbers of a token and head; the grain of a latent in fp8 without given scales.
enum class KvGrain : std::uint8_t { none, tensor, head, token_head, token_block };
constexpr int kScaleBlock = 128;

// The basis a segment is kept in. hadamard: rows are turned by the orthonormal Sylvester matrix in blocks of the
// largest power of two that divides the width (96 = 3 x 32); q is turned too, so scores do not change.
enum class KvTransform : std::uint8_t { none, hadamard };

struct KvSegment {
  KvPart part = KvPart::key;
  KvElem elem = KvElem::bf16;
  KvGrain grain = KvGrain::none;
  KvTransform transform = KvTransform::none;
  std::int32_t heads = 0;
  std::int32_t width = 0;  // numbers a head

  constexpr bool operator==(const KvSegment&) const = default;
};

constexpr int kMaxSegments = 4;

struct KvFormat {
  KvSegment segments[kMaxSegments];
  std::int32_t num_segments = 0;

  constexpr bool operator==(const KvFormat&) const = default;
};

// A latent and a rope key, not keys and values.
constexpr bool is_latent(const KvFormat& format) { return format.segments[0].part == KvPart::latent; }

constexpr int elem_bytes(KvElem elem) { return elem == KvElem::f32 ? 4 : elem == KvElem::bf16 ? 2 : 1; }
constexpr bool is_8bit(KvElem elem) { return elem_bytes(elem) == 1; }

// Bytes of the scales that one token and head has in the page.
constexpr int page_scale_bytes(const KvSegment& s) {
  return s.grain == KvGrain::token_head    ? 2
         : s.grain == KvGrain::token_block ? 4 * ((s.width + kScaleBlock - 1) / kScaleBlock)
                                           : 0;
}
// Bytes of one token in one layer, scales in the page included.
constexpr std::int64_t bytes_per_token(const KvSegment& s) {
  return std::int64_t{s.heads} * (std::int64_t{s.width} * elem_bytes(s.elem) + page_scale_bytes(s));
}
constexpr std::int64_t bytes_per_token(const KvFormat& format) {
  std::int64_t bytes = 0;
  for (int i = 0; i < format.num_segments; ++i) bytes += bytes_per_token(format.segments[i]);
  return bytes;
}
constexpr std::int64_t bytes_per_page(const KvFormat& format, int page_size) {
  return bytes_per_token(format) * page_size;
}

// Whether a Hadamard rotation exists for this width: a power of two >= 2 times an odd number <= 15.
constexpr int hadamard_block(int width) { return width & -width; }
constexpr bool has_hadamard(int width) {
  return width >= 2 && hadamard_block(width) >= 2 && width / hadamard_block(width) <= 15;
}

// What the flags ask for, before a model's shapes are known.
enum class TransformChoice : std::uint8_t { automatic, none, hadamard };
struct KvCacheChoice {
  bool automatic = true;  // the compute dtype
  KvElem key = KvElem::bf16;
  KvElem value = KvElem::bf16;
  std::optional<KvElem> rope;  // of a latent cache's rope keys; absent: 16 bits where the latent has 8, else its kind
  TransformChoice transform = TransformChoice::automatic;
};

// "auto", "bfloat16", "float32", "fp8", "fp8_e4m3", "fp8_e5m2", "int8", or a pair "K:V".
Result<KvCacheChoice> parse_kv_cache_dtype(std::string_view text);

// The format of a grouped-query layer. compute is f32 or bf16 (what automatic means). per_head_scales: the scales that
// will be given differ by KV head. Errors: hadamard asked for a width that has none, or for a K that is not 8 bits.
Result<KvFormat> grouped_format(const KvCacheChoice& choice, KvElem compute, int kv_heads, int head_dim,
                                bool per_head_scales);

// Sets choice.rope: "auto", or one kind of those above that needs no scale a token: --kv-cache-rope-dtype.
Status parse_kv_rope_dtype(std::string_view text, KvCacheChoice& choice);

// The format of a latent layer: one latent and one rope key for all heads; the latent is key and value at once.
// given_scales: an 8-bit floating kind has them per tensor, otherwise the writer makes one for each kScaleBlock
// numbers. Errors: two kinds for the one latent, a rotation.
Result<KvFormat> latent_format(const KvCacheChoice& choice, KvElem compute, int latent_dim, int rope_dim,
                               bool given_scales);

std::string_view name_of(KvElem elem);    // "fp8_e4m3": vLLM's spelling
std::string_view name_of(KvGrain grain);  // "per KV head"
std::string_view name_of(KvTransform transform);
std::string describe(
    const KvFormat& format);  // "K int8 8x128 per token and head, hadamard | V fp8_e4m3 8x128 per tensor"

}  // namespace octavo
