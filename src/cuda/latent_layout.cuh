// LatentLayout: where this wing keeps a token's latent and rope key inside a page. The one place that knows;
// docs/kv-formats.md, section 7, is its description.
//
// A page has 64 tokens and is the latents token after token, the rope keys token after token, then for each of the two
// whose scales are made by the writer those, token after token. No swizzle: a row is latent and value at once, and a
// reader places it in shared memory as its products want it. No page holds padding.
#pragma once

#include <cstdint>

#include "cuda/page_layout.cuh"
#include "kv/format.h"

namespace octavo::cuda {

constexpr int kLatentImage = 512;  // numbers of a latent in shared memory: narrower ones are filled up with zeros
constexpr int kRopeImage = 64;
constexpr int kLatentKey = kLatentImage + kRopeImage;

// Whole pieces of 16 codes.
constexpr bool has_latent_layout(int latent, int rope) {
  return latent > 0 && latent <= kLatentImage && latent % 16 == 0 && rope > 0 && rope <= kRopeImage && rope % 16 == 0;
}

struct LatentPart {
  KvElem elem = KvElem::bf16;
  KvGrain grain = KvGrain::none;
  std::int32_t width = 0;
  std::int32_t block = 0;        // bytes from the page's start to the first token's numbers
  std::int32_t scales = 0;       // and to its scales, of use only where they are in the page
  std::int32_t scale_bytes = 0;  // of a token; 0: given, or none

  constexpr std::int32_t number(int token, int i) const { return block + (token * width + i) * elem_bytes(elem); }
  constexpr std::int32_t scale(int token, int i) const {
    return scales + token * scale_bytes + (grain == KvGrain::token_block ? i / kScaleBlock * 4 : 0);
  }
};

struct LatentLayout {
  LatentPart latent, rope;
  std::int32_t page_bytes = 0;
};

constexpr LatentLayout latent_layout(const KvFormat& format) {
  LatentLayout layout;
  for (LatentPart* part : {&layout.latent, &layout.rope}) {
    const KvSegment& segment = format.segments[part == &layout.rope ? 1 : 0];
    part->elem = segment.elem;
    part->grain = segment.grain;
    part->width = segment.width;
    part->scale_bytes = page_scale_bytes(segment);
    part->block = layout.page_bytes;
    layout.page_bytes += kPageTokens * segment.width * elem_bytes(segment.elem);
  }
  for (LatentPart* part : {&layout.latent, &layout.rope}) {
    part->scales = layout.page_bytes;
    layout.page_bytes += kPageTokens * part->scale_bytes;
  }
  return layout;
}

// In shared memory a tile of K is chunks of 64 numbers, a chunk a row of 128 bytes a token, its pieces of 16 bytes
// exchanged by the token. Where such a piece lies, of eight bfloat16 numbers:
constexpr int latent_piece(int token, int piece, int tile_tokens) {
  return piece / 8 * tile_tokens * 128 + token * 128 + ((piece % 8 ^ token % 8) << 4);
}

}  // namespace octavo::cuda
