// The products of lane_tile.h on AVX-512 with VNNI. A weight's codes are unpacked into registers and meet a set of rows
// of x there; each of the sixteen lanes is an output, so that no sum crosses lanes.
#include <immintrin.h>

#include "cpu/lane_tile.h"

namespace octavo::cpu::avx512vnni {

namespace {

constexpr int kAhead = 8192;            // bytes
constexpr int kQuads = kLaneGroup / 4;  // four codes of each lane in a register

struct Codes {
  __m512i quads[kQuads];
  __m512 step;  // value = step code + base
  __m512 base;
};

__m512 halves(const std::uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

// Numbers 0 .. 15 of each lane are low nibbles, 16 .. 31 high ones.
void unpack_nibbles(const std::uint8_t* p, Codes& codes) {
  const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int i = 0; i < kQuads / 2; ++i) {
    const __m512i pairs = _mm512_loadu_si512(p + 64 * i);
    codes.quads[i] = _mm512_and_si512(pairs, mask);
    codes.quads[kQuads / 2 + i] = _mm512_and_si512(_mm512_srli_epi16(pairs, 4), mask);
  }
}

struct UnpackQ40 {
  static constexpr int kHead = 32;
  static constexpr int kCodes = 256;
  static void unpack(const std::uint8_t* head, const std::uint8_t* p, Codes& codes) {
    codes.step = halves(head);
    codes.base = _mm512_mul_ps(codes.step, _mm512_set1_ps(-8));
    unpack_nibbles(p, codes);
  }
};

struct UnpackQ41 {
  static constexpr int kHead = 64;
  static constexpr int kCodes = 256;
  static void unpack(const std::uint8_t* head, const std::uint8_t* p, Codes& codes) {
    codes.step = halves(head);
    codes.base = halves(head + 32);
    unpack_nibbles(p, codes);
  }
};

struct UnpackQ80 {
  static constexpr int kHead = 32;
  static constexpr int kCodes = 512;
  static void unpack(const std::uint8_t* head, const std::uint8_t* p, Codes& codes) {
    codes.step = halves(head);
    codes.base = _mm512_mul_ps(codes.step, _mm512_set1_ps(-128));
#pragma GCC unroll 8
    for (int i = 0; i < kQuads; ++i) codes.quads[i] = _mm512_loadu_si512(p + 64 * i);
  }
};

template <class Unpack>
class LaneKernel {
 public:
  explicit LaneKernel(const LaneTile& tile) : tile_(tile) {}

  void run() const {
    for (std::int64_t block = tile_.begin; block < tile_.end; ++block) {
      std::int64_t row = 0;
      for (; row + kLaneSet <= tile_.rows; row += kLaneSet) rows<kLaneSet>(block, row);
      rest<kLaneSet - 1>(block, row);
    }
  }

 private:
  template <int kRows>
  void rest(std::int64_t block, std::int64_t row) const {
    if (tile_.rows - row == kRows) return rows<kRows>(block, row);
    if constexpr (kRows > 1) rest<kRows - 1>(block, row);
  }

  template <int kRows>
  void rows(std::int64_t block, std::int64_t row) const {
    const std::uint8_t* head = tile_.weight + block * tile_.block_bytes;
    const std::uint8_t* p = head + tile_.head_bytes;
    const std::int8_t* x = tile_.codes + row * tile_.groups * kLaneRowBytes;
    const float* scales = tile_.scales + row * tile_.groups;
    const float* x_sums = tile_.sums + row * tile_.groups;
    __m512 sums[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_ps();
    for (std::int64_t g = 0; g < tile_.groups;
         ++g, x += kLaneSet * kLaneRowBytes, scales += kLaneSet, x_sums += kLaneSet) {
      Codes codes;
      Unpack::unpack(head + g * Unpack::kHead, p + g * Unpack::kCodes, codes);
      // The processor's own prefetch stops at pages: with this, weights that lie in memory come by half faster.
#pragma GCC unroll 8
      for (int i = 0; i < Unpack::kCodes; i += 64) __builtin_prefetch(p + g * Unpack::kCodes + kAhead + i);
      __builtin_prefetch(head + g * Unpack::kHead + kAhead);
      __m512i products[kRows];
      dot(codes, x, products);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512 factor = _mm512_mul_ps(codes.step, _mm512_set1_ps(scales[r]));
        sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[r]), factor, sums[r]);
        sums[r] = _mm512_fmadd_ps(codes.base, _mm512_set1_ps(x_sums[r]), sums[r]);
      }
    }
    store(block, row, sums);
  }

  // 256 (upper codes) + (lower codes), at most 2^29. Each sum waits for its last product: upper and lower ones apart
  // and the rows in turns are as many as the processor has on their way.
  template <int kRows>
  static void dot(const Codes& codes, const std::int8_t* x, __m512i (&sums)[kRows]) {
    __m512i lower[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = lower[r] = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int i = 0; i < kQuads; ++i) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const std::int8_t* four = x + r * kLaneRowBytes + 4 * i;
        add_products(sums[r], codes.quads[i], four);
        add_products(lower[r], codes.quads[i], four + kLaneGroup);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_add_epi32(_mm512_slli_epi32(sums[r], 8), lower[r]);
  }
  // The instruction itself: g++ would put sums into other registers.
  static void add_products(__m512i& sum, __m512i codes, const std::int8_t* four) {
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(codes), "m"(*reinterpret_cast<const std::int32_t*>(four)));
  }

  template <int kRows>
  void store(std::int64_t block, std::int64_t row, const __m512 (&sums)[kRows]) const {
    const std::int64_t at = block * kLaneOuts;
    const __m512 bias = tile_.bias == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(tile_.bias + at);
    float rounded[kRows * kLaneOuts];
    float* to = tile_.out_is_bf16 ? rounded : static_cast<float*>(tile_.out) + row * tile_.out_stride + at;
    const std::int64_t stride = tile_.out_is_bf16 ? kLaneOuts : tile_.out_stride;
    for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(to + r * stride, _mm512_add_ps(sums[r], bias));
    if (tile_.out_is_bf16)
      avx512::store_lanes(rounded, kRows, static_cast<std::uint16_t*>(tile_.out) + row * tile_.out_stride + at,
                          tile_.out_stride);
  }

  const LaneTile& tile_;
};

}  // namespace

void lane_tile(const LaneTile& tile) {
  switch (tile.kind) {
    case LaneKind::q4_0:
      return LaneKernel<UnpackQ40>(tile).run();
    case LaneKind::q4_1:
      return LaneKernel<UnpackQ41>(tile).run();
    case LaneKind::q8_0:
      return LaneKernel<UnpackQ80>(tile).run();
  }
}

}  // namespace octavo::cpu::avx512vnni
