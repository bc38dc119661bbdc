// What the kernels for few rows share: the parts of a weight that one launch takes side by side, and where results go.
#pragma once

#include "cuda/few_rows.h"
#include "cuda/weight_numbers.cuh"

namespace octavo::cuda {

// Parts of one dtype: part p has the blocks from first_block[p] on.
struct PartStack {
  PartView part[kMaxStacked];
  unsigned first_block[kMaxStacked] = {};
  std::int64_t column[kMaxStacked] = {};  // of the result
  int count = 0;
  unsigned blocks = 0;

  __device__ int part_of(unsigned block) const {
    int which = 0;
    while (which + 1 < count && block >= first_block[which + 1]) ++which;
    return which;
  }
};

inline PartStack stack_of(std::span<const WeightPart> parts, int rows_a_block) {
  octavo::check(!parts.empty() && parts.size() <= kMaxStacked, "one launch takes a few parts");
  PartStack stack;
  std::int64_t column = 0;
  for (const WeightPart& part : parts) {
    stack.part[stack.count] = view_of(part);
    stack.first_block[stack.count] = stack.blocks;
    stack.column[stack.count++] = column;
    stack.blocks += blocks_for(part.values.size(0), rows_a_block);
    column += part.values.size(0);
  }
  return stack;
}

// Sixteen bytes of a weight that this launch reads once: they take no place in L1, and L2 fetches whole lines.
__device__ inline uint4 load_streamed(const std::byte* from) {
  uint4 bits;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(from));
  return bits;
}

struct RowsResult {
  void* data = nullptr;
  const float* bias = nullptr;
  std::int64_t stride = 0;
  bool bf16 = false;

  __device__ void put(std::int64_t row, std::int64_t i, float value) const {
    if (bias != nullptr) value += bias[i];
    if (bf16)
      static_cast<__nv_bfloat16*>(data)[row * stride + i] = __float2bfloat16_rn(value);
    else
      static_cast<float*>(data)[row * stride + i] = value;
  }
};

inline RowsResult result_of(const RowsProduct& product) {
  octavo::check(product.out.dtype() == DType::bf16 || product.out.dtype() == DType::f32,
                "a product's result is bf16 or f32");
  return {product.out.raw(), floats(product.bias), product.out.stride(0), product.out.dtype() == DType::bf16};
}

}  // namespace octavo::cuda
