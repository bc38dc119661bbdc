// A warp writes a token, in steps over its row; what it needs of a row before the first code it reads beforehand.
#include <algorithm>

#include "cuda/check.h"
#include "cuda/kv_write.h"
#include "cuda/latent_layout.cuh"
#include "cuda/latent_write.h"
#include "cuda/packs.cuh"
#include "kv/codec.h"

namespace octavo::cuda {

namespace {

constexpr int kLatentThreads = 256;
constexpr int kLatentWarps = kLatentThreads / 32;
constexpr int kQueryNumbers = 4;  // of a thread

template <class T>
struct LatentWrite {
  Rows<const T> latent, rope;
  std::int32_t tokens = 0;
  const std::int32_t* slots = nullptr;
  LatentLayout layout;
  const float* latent_scale = nullptr;  // one, given; or null
  const float* rope_scale = nullptr;
  std::byte* pages = nullptr;
  std::int64_t page_bytes = 0;
  std::int32_t num_pages = 0;
  KvCounters* counters = nullptr;
};

// What a lane noticed on its numbers.
struct RowNotice {
  unsigned saturated = 0;
  float amax = 0.0f;

  __device__ void see(float x) { amax = fmaxf(amax, fabsf(x)); }  // a NaN raises nothing
};

__device__ float max_of_warp(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}

// A scale of its own for each block of numbers. A NaN is no magnitude: it becomes its code.
template <class T>
__device__ void write_blocks(const T* row, const LatentPart& part, std::byte* page, int place, RowNotice& notice) {
  const int lane = threadIdx.x % 32;
  for (int begin = 0; begin < part.width; begin += kScaleBlock) {
    const int end = min(begin + kScaleBlock, part.width);
    float amax = 0.0f;
    for (int i = begin + lane; i < end; i += 32) amax = fmaxf(amax, fabsf(to_float(row[i])));
    const float scale = float8_scale(part.elem, max_of_warp(amax));
    if (lane == 0) *reinterpret_cast<float*>(page + part.scale(place, begin)) = scale;
    for (int i = begin + lane; i < end; i += 32) {
      const float x = to_float(row[i]);
      notice.see(x);
      std::uint8_t code = 0;
      if (scale > 0.0f) {
        code = encode8(part.elem, __fdiv_rn(x, scale));
        notice.saturated += isinf(x) ? 1 : 0;
      } else if (isnan(x)) {  // the others are too small to keep
        code = encode8(part.elem, x);
      }
      page[part.number(place, i)] = static_cast<std::byte>(code);
    }
  }
}

template <class T>
__device__ void write_int8(const T* row, const LatentPart& part, std::byte* page, int place, RowNotice& notice) {
  const int lane = threadIdx.x % 32;
  std::uint32_t most = 0;  // of magnitudes as bits, NaN above all
  for (int i = lane; i < part.width; i += 32) most = max(most, __float_as_uint(to_float(row[i])) & 0x7FFFFFFFu);
  const std::uint16_t bits = int8_scale(__uint_as_float(__reduce_max_sync(~0u, most)));
  const float inverse = int8_inverse(bits);
  const float limit = 127.0f * f32_from_bf16(bits);
  if (lane == 0) *reinterpret_cast<std::uint16_t*>(page + part.scale(place, 0)) = bits;
  for (int i = lane; i < part.width; i += 32) {
    const float x = to_float(row[i]);
    notice.see(x);
    notice.saturated += fabsf(x) > limit && bits != 0 ? 1 : 0;
    page[part.number(place, i)] = static_cast<std::byte>(int8_from_f32(x, inverse));
  }
}

// given: the scale, or null.
template <class T>
__device__ void write_row(const T* row, const LatentPart& part, const float* given, std::byte* page, int place,
                          RowNotice& notice) {
  if (part.elem == KvElem::int8) return write_int8(row, part, page, place, notice);
  if (part.grain == KvGrain::token_block) return write_blocks(row, part, page, place, notice);
  const float scale = given != nullptr ? *given : 1.0f;
  for (int i = threadIdx.x % 32; i < part.width; i += 32) {
    const float x = to_float(row[i]);
    notice.see(x);
    std::byte* const to = page + part.number(place, i);
    if (part.elem == KvElem::bf16) {
      *reinterpret_cast<std::uint16_t*>(to) = bf16_from_f32(x);
      continue;
    }
    const float scaled = __fdiv_rn(x, scale);
    notice.saturated += fabsf(scaled) > max_value(part.elem) ? 1 : 0;
    *to = static_cast<std::byte>(encode8(part.elem, scaled));
  }
}

// Magnitudes are not negative: they order as their bits do.
__device__ void raise(float* shared, float amax) {
  if (threadIdx.x % 32 == 0 && amax > *reinterpret_cast<volatile float*>(shared))
    atomicMax(reinterpret_cast<unsigned*>(shared), __float_as_uint(amax));
}

template <class T>
__global__ void __launch_bounds__(kLatentThreads) latent_write_kernel(const __grid_constant__ LatentWrite<T> w) {
  const int token = static_cast<int>(blockIdx.x) * kLatentWarps + static_cast<int>(threadIdx.x) / 32;
  if (token >= w.tokens) return;
  const int slot = w.slots[token];
  if (slot < 0 || slot / kPageTokens >= w.num_pages) __trap();
  std::byte* const page = w.pages + slot / kPageTokens * w.page_bytes;
  const int place = slot % kPageTokens;
  RowNotice latent, rope;
  write_row(w.latent.row(token), w.layout.latent, w.latent_scale, page, place, latent);
  write_row(w.rope.row(token), w.layout.rope, w.rope_scale, page, place, rope);
  if (w.counters == nullptr || slot < kPageTokens) return;  // page 0 takes padding
  raise(&w.counters->key_amax, max_of_warp(latent.amax));
  raise(&w.counters->value_amax, max_of_warp(rope.amax));
  const unsigned saturated = __reduce_add_sync(~0u, latent.saturated + rope.saturated);
  if (threadIdx.x % 32 != 0) return;
  const unsigned long long numbers = w.layout.latent.width + w.layout.rope.width;
  atomicAdd(reinterpret_cast<unsigned long long*>(&w.counters->written), numbers);
  if (saturated > 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(&w.counters->saturated),
              static_cast<unsigned long long>(saturated));
}

// The queries of a token, heads one after the other.
template <class T>
__global__ void __launch_bounds__(kLatentThreads)
    latent_query_kernel(Rows<T> from, std::int64_t head_stride, int width, int numbers, __nv_bfloat16* to,
                        std::int64_t to_stride, std::int64_t to_head_stride) {
  const int i = (static_cast<int>(blockIdx.y) * kLatentThreads + static_cast<int>(threadIdx.x)) * kQueryNumbers;
  if (i >= numbers) return;
  const int head = i / width, d = i % width;
  const auto four = pack_at<T, kQueryNumbers>(from.row(blockIdx.x) + head * head_stride, d);
  Pack<__nv_bfloat16, kQueryNumbers> rounded;
#pragma unroll
  for (int n = 0; n < kQueryNumbers; ++n) rounded.values[n] = __float2bfloat16_rn(to_float(four.values[n]));
  pack_at<__nv_bfloat16, kQueryNumbers>(to + blockIdx.x * to_stride + head * to_head_stride, d) = rounded;
}

bool is_by_four(const Tensor& x) {
  const std::int64_t bytes = dtype_info(x.dtype()).block_bytes;
  return x.stride(2) == 1 && x.size(2) % kQueryNumbers == 0 &&
         (reinterpret_cast<std::uintptr_t>(x.raw()) | static_cast<std::uintptr_t>(bytes * x.stride(0)) |
          static_cast<std::uintptr_t>(bytes * x.stride(1))) %
                 static_cast<std::uintptr_t>(kQueryNumbers * bytes) ==
             0;
}

void write_queries(cudaStream_t stream, const KvWriteArgs& args) {
  const Tensor& q = args.q;
  const Tensor& to = args.query.values;
  if (q.size(0) == 0) return;
  octavo::check(to.dtype() == DType::bf16 && to.size(0) == q.size(0) && to.size(1) == q.size(1) &&
                    to.size(2) == q.size(2) && is_by_four(q) && is_by_four(to),
                "queries do not have the shape that query_spec() says");
  const int numbers = static_cast<int>(q.size(1) * q.size(2));
  const dim3 grid(static_cast<unsigned>(q.size(0)), blocks_for(numbers, kLatentThreads * kQueryNumbers));
  visit_float(q.dtype(), [&](auto type) {
    using T = decltype(type);
    latent_query_kernel<T><<<grid, kLatentThreads, 0, stream>>>(rows_of<T>(q), q.stride(1), static_cast<int>(q.size(2)),
                                                                numbers, reinterpret_cast<__nv_bfloat16*>(to.raw()),
                                                                to.stride(0), to.stride(1));
  });
  check_launch();
}

void write_records(cudaStream_t stream, const KvWriteArgs& args) {
  const LatentLayout layout = latent_layout(args.kv.format);
  const std::int64_t tokens = args.k.size(0);
  octavo::check(args.v.size(0) == tokens && args.k.size(1) == 1 && args.v.size(1) == 1 &&
                    args.k.size(2) == layout.latent.width && args.v.size(2) == layout.rope.width &&
                    args.k.dtype() == args.v.dtype() && args.k.stride(2) == 1 && args.v.stride(2) == 1 &&
                    args.slots.elements() == tokens,
                "a latent and a rope key a token, as the cache has them");
  octavo::check(args.kv.page_size == kPageTokens && args.kv.page_bytes == layout.page_bytes &&
                    has_latent_layout(layout.latent.width, layout.rope.width),
                "pages do not have this wing's size");
  if (tokens == 0) return;
  visit_float(args.k.dtype(), [&](auto type) {
    using T = decltype(type);
    LatentWrite<T> w;
    w.latent = rows_of<const T>(args.k);
    w.rope = rows_of<const T>(args.v);
    w.tokens = static_cast<std::int32_t>(tokens);
    w.slots = ints(args.slots);
    w.layout = layout;
    w.latent_scale = given_scales(args.kv, 0);
    w.rope_scale = given_scales(args.kv, 1);
    w.pages = args.kv.pages;
    w.page_bytes = args.kv.page_bytes;
    w.num_pages = args.kv.num_pages;
    w.counters = args.kv.counters;
    latent_write_kernel<T><<<blocks_for(tokens, kLatentWarps), kLatentThreads, 0, stream>>>(w);
  });
  check_launch();
}

}  // namespace

void latent_write(cudaStream_t stream, const KvWriteArgs& args) {
  octavo::check(
      args.rope.inv_freq.empty() && args.q_norm == nullptr && args.k_norm == nullptr && args.v_norm == nullptr,
      "latents and rope keys come normed and turned");
  write_queries(stream, args);
  if (!args.k.empty()) write_records(stream, args);
}

}  // namespace octavo::cuda
