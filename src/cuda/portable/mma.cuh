// The instructions that attention and the delta rule are made of, sm_80 and up: asynchronous copies, matrix loads,
// products with float32 sums, and the unpacking of 8-bit codes. Nothing here knows of either.
//
// All 8-bit codes unpack exactly into float16, a NaN stays a NaN.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kv/format.h"

namespace octavo::cuda::portable {

enum class Operand { f16, bf16 };

__device__ inline void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copy_async_or_zeros(std::uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t (&to)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

template <Operand kOperand>
__device__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (kOperand == Operand::f16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// 16 x 8 x 32 of int8, with exact sums.
__device__ inline void multiply_add_codes(int (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                          std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// 16 x 8 x 8 of float32 numbers, of which the leading 11 bits count.
__device__ inline void multiply_add_tf32(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// A matrix of 8 x 8 16-bit numbers that a warp holds, turned.
__device__ inline std::uint32_t transposed(std::uint32_t x) {
  std::uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

__device__ inline std::uint32_t bits_of(__half2 x) { return *reinterpret_cast<std::uint32_t*>(&x); }
__device__ inline std::uint32_t bits_of(__nv_bfloat162 x) { return *reinterpret_cast<std::uint32_t*>(&x); }

__device__ inline std::uint32_t multiply_halves(std::uint32_t a, std::uint32_t b) {
  return bits_of(__hmul2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b)));
}

template <Operand kOperand>
__device__ std::uint32_t packed(float low, float high) {
  if constexpr (kOperand == Operand::f16) return bits_of(__floats2half2_rn(low, high));
  return bits_of(__floats2bfloat162_rn(low, high));
}

// Four codes in `word` become two registers of two numbers each.
template <KvElem kElem>
__device__ void unpack(std::uint32_t word, std::uint32_t& low, std::uint32_t& high) {
  static_assert(is_8bit(kElem));
  if constexpr (kElem == KvElem::e5m2) {  // the upper byte of a float16
    low = __byte_perm(word, 0, 0x1404);
    high = __byte_perm(word, 0, 0x3424);
  } else if constexpr (kElem == KvElem::e4m3) {
#if __CUDA_ARCH__ >= 890
    asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e4m3x2 %0, a; cvt.rn.f16x2.e4m3x2 %1, b; }"
        : "=r"(low), "=r"(high)
        : "r"(word));
#else
    const auto widened = [](std::uint32_t codes) {  // in the upper bytes; exponents are 8 too small, 480 is the NaN
      const std::uint32_t bits = (codes & 0x80008000u) | (codes & 0x7F007F00u) >> 1;
      const __half2 x = __hmul2(*reinterpret_cast<const __half2*>(&bits), __float2half2_rn(256.0f));
      return bits_of(x) | (__heq2_mask(__habs2(x), __float2half2_rn(480.0f)) & 0x7E007E00u);
    };
    low = widened(__byte_perm(word, 0, 0x1404));
    high = widened(__byte_perm(word, 0, 0x3424));
#endif
  } else {  // 1024 + 128 + the number, less 1152
    const std::uint32_t codes = word ^ 0x80808080u, bias = 0x64806480u;
    const auto number = [&](std::uint32_t bits) {
      return bits_of(__hsub2(*reinterpret_cast<const __half2*>(&bits), *reinterpret_cast<const __half2*>(&bias)));
    };
    low = number(__byte_perm(codes, 0x64646464u, 0x4140));
    high = number(__byte_perm(codes, 0x64646464u, 0x4342));
  }
}

}  // namespace octavo::cuda::portable
