// PageLayout: where this wing keeps a token's numbers and scales inside a page. The one place that knows;
// docs/kv-formats.md, section 7, is its description.
//
// A page has 64 tokens and is, head after head, one piece: K block, V block, bfloat16 scales of K, then of V, where
// their kind is int8. Blocks of heads of 64, 128, 256 and 512 numbers are the shared-memory images of tensor-core
// operands, so a reader copies them as they are. Rows of other widths are no whole chunks: they lie in pieces of 16
// bytes, piece after piece, and a reader places them in the image of the next of those widths. No page holds padding.
#pragma once

#include <cstdint>

#include "kv/format.h"

namespace octavo::cuda {

constexpr int kPageTokens = 64;

constexpr int kLargestWidth = 512;

constexpr bool has_page_layout(int width) { return width > 0 && width <= kLargestWidth && width % 16 == 0; }

// The width of the kernels that serve a head, and of its image in shared memory.
constexpr int image_width(int width) { return width <= 64 ? 64 : width <= 128 ? 128 : width <= 256 ? 256 : 512; }

struct PageLayout {
  std::int32_t width = 0;
  bool in_pieces = false;        // not the image itself
  std::int32_t key_bytes = 0;    // of one number
  std::int32_t value_bytes = 0;  // of one number
  std::int32_t value_block = 0;  // bytes from a head's start
  std::int32_t key_scales = 0;   // bytes from a head's start; of use only for int8
  std::int32_t value_scales = 0;
  std::int32_t head_bytes = 0;
};

constexpr PageLayout page_layout(const KvFormat& format) {
  const KvSegment& key = format.segments[0];
  const KvSegment& value = format.segments[1];
  PageLayout layout;
  layout.width = key.width;
  layout.in_pieces = image_width(key.width) != key.width;
  layout.key_bytes = elem_bytes(key.elem);
  layout.value_bytes = elem_bytes(value.elem);
  layout.value_block = kPageTokens * key.width * layout.key_bytes;
  layout.key_scales = layout.value_block + kPageTokens * value.width * layout.value_bytes;
  layout.value_scales = layout.key_scales + (key.elem == KvElem::int8 ? 2 * kPageTokens : 0);
  layout.head_bytes = layout.value_scales + (value.elem == KvElem::int8 ? 2 * kPageTokens : 0);
  return layout;
}

// Exchanges the 16-byte pieces of rows of 128 or 64 bytes by the row's number.
constexpr int swizzled(int offset, int row_bytes) {
  return row_bytes == 128 ? offset ^ (((offset >> 7) & 7) << 4) : offset ^ (((offset >> 7) & 3) << 4);
}

// Byte `b` of a token's row in blocks that lie token after token: K of any kind, V in bfloat16. row_bytes: of a whole
// row.
constexpr int token_offset(int token, int b, int row_bytes) {
  const int chunk = row_bytes < 128 ? row_bytes : 128;
  return b / chunk * kPageTokens * chunk + swizzled(token * chunk + b % chunk, chunk);
}

// The same where a block lies in pieces.
constexpr int piece_offset(int token, int b) { return b / 16 * kPageTokens * 16 + token * 16 + b % 16; }

// The column of a token in a transposed V block, and where its number d lies.
constexpr int transposed_column(int token) {
  return (token & ~15) + 4 * ((token & 7) / 2) + (token & 1) + ((token & 8) != 0 ? 2 : 0);
}
constexpr int transposed_offset(int token, int d) {
  return swizzled(d * kPageTokens + transposed_column(token), kPageTokens);
}

}  // namespace octavo::cuda
