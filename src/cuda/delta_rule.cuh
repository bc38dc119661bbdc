// What the forms of the delta rule share: their arguments as plain data, and the form in chunks (delta_chunks.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/numbers.cuh"
#include "ops/ops.h"

namespace octavo::cuda {

constexpr float kDeltaEps = 1e-6f;

template <class T>
struct Heads {  // [tokens, heads, width]
  T* data = nullptr;
  std::int64_t token_stride = 0, head_stride = 0;
  __device__ T* row(std::int64_t token, std::int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};
template <class T>
Heads<T> heads_of(const Tensor& x) {
  return {reinterpret_cast<T*>(x.raw()), x.stride(0), x.stride(1)};
}

template <class T>
struct Delta {
  Heads<const T> q, k, v;
  Rows<const float> decay, beta;
  float* state = nullptr;  // f32 [records, heads, key_width, value_width]
  const std::int32_t* records = nullptr;
  const std::int32_t* query_start = nullptr;
  const std::int32_t* context = nullptr;
  Heads<T> out;
  int heads = 0, key_width = 0, value_width = 0, values_of_key = 1;

  Delta from(std::int32_t seq) const {
    Delta rest = *this;
    rest.records += seq, rest.query_start += seq, rest.context += seq;
    return rest;
  }
  __device__ float* state_of(int seq, std::int64_t head) const {
    return state + (records[seq] * std::int64_t{heads} + head) * key_width * value_width;
  }
};

// Whether chunks serve these shapes: bf16 rows, whose keys and queries tensor cores take as they are.
bool takes_delta_chunks(const DeltaRuleArgs& args);
void delta_chunks(cudaStream_t stream, const Delta<__nv_bfloat16>& delta, std::int32_t num_seqs);

}  // namespace octavo::cuda
