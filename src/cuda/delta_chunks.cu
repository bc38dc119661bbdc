// delta_rule in chunks of 32 tokens on tensor cores. A block has 64 columns of one value head over one sequence: four
// warps make chunks, four more take them, 16 columns each.
#include "cuda/check.h"
#include "cuda/delta_chunk_maker.cuh"
#include "cuda/delta_chunk_taker.cuh"

namespace octavo::cuda {

namespace {

// blockIdx.x: of all heads, one after the other, so many columns each.
__global__ void __launch_bounds__(kChunkThreads, 1) delta_chunks_kernel(const __grid_constant__ Delta<Bf16> delta) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* const stages = reinterpret_cast<DeltaChunk*>(shared);
  const int tiles = delta.value_width / kChunkColumns, seq = static_cast<int>(blockIdx.y);
  const ChunkTask task{.begin = delta.query_start[seq],
                       .end = delta.query_start[seq + 1],
                       .head = static_cast<int>(blockIdx.x) / tiles,
                       .first_column = static_cast<int>(blockIdx.x) % tiles * kChunkColumns};
  if (task.begin == task.end) return;
  if (threadIdx.x < kChunkMakers)
    ChunkMaker(delta, task).make_all(stages);
  else
    ChunkTaker(delta, task)
        .take_all(stages, delta.state_of(seq, task.head), delta.context[seq] == task.end - task.begin);
}

}  // namespace

bool takes_delta_chunks(const DeltaRuleArgs& args) {
  const auto whole = [](const Tensor& x, std::int64_t width) {  // pieces of so many numbers
    return reinterpret_cast<std::uintptr_t>(x.raw()) % static_cast<std::uintptr_t>(2 * width) == 0 &&
           x.stride(0) % width == 0 && x.stride(1) % width == 0 && x.stride(2) == 1;
  };
  return args.v.dtype() == DType::bf16 && args.k.size(2) == kChunkKeyWidth && args.v.size(2) % kChunkColumns == 0 &&
         whole(args.q, 8) && whole(args.k, 8) && whole(args.v, 8) && whole(args.out, 2);
}

void delta_chunks(cudaStream_t stream, const Delta<Bf16>& delta, std::int32_t num_seqs) {
  constexpr int kBytes = kChunkStages * static_cast<int>(sizeof(DeltaChunk));
  static_assert(kBytes <= 99 * 1024, "what any GPU from sm_80 on gives a block");
  check(cudaFuncSetAttribute(delta_chunks_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const auto blocks = static_cast<unsigned>(delta.heads * (delta.value_width / kChunkColumns));
  delta_chunks_kernel<<<dim3(blocks, static_cast<unsigned>(num_seqs)), kChunkThreads, kBytes, stream>>>(delta);
}

}  // namespace octavo::cuda
