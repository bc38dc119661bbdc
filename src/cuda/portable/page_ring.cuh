// PageRing: the pages of one sequence and KV head on their way into shared memory, kStages deep, copied whole by all
// threads of a block. Usage: start(), then for each page: wait() gives it to all, and its successor is asked for.
#pragma once

#include "cuda/portable/mma.cuh"
#include "cuda/portable/params.h"

namespace octavo::cuda::portable {

template <int kBytes, int kStages, int kThreads>
class PageRing {
 public:
  static_assert(kBytes % 16 == 0);
  __device__ PageRing(const AttentionParams& p, std::byte* shared)
      : base_(p.pages),
        page_bytes_(p.page_bytes),
        shared_(shared),
        to_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {}

  // The page numbers of a sequence from one on.
  __device__ static const std::int32_t* table_of(const AttentionParams& p, int seq, int first_page) {
    return p.page_table + std::int64_t{seq} * p.max_pages + first_page;
  }

  // first: table[0]. No thread reads a page any more.
  __device__ void start(const std::int32_t* table, std::int32_t first, int kv_head, int num_pages) {
    table_ = table;
    from_ = base_ + std::int64_t{kv_head} * kBytes;
    num_pages_ = num_pages;
    asked_ = given_ = 0;
    next_ = first;
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) ask();
  }

  // The next page, there for all threads. Everyone has left the page before it.
  __device__ const std::byte* wait() {
    wait_copies<kStages - 2>();
    __syncthreads();
    ask();
    return shared_ + given_++ % kStages * kBytes;
  }

 private:
  // A group of copies each time, empty at the end, so that their number tells what has arrived.
  __device__ void ask() {
    if (asked_ < num_pages_) {
      const std::byte* from = from_ + next_ * page_bytes_ + threadIdx.x * 16;
      const std::uint32_t to = to_ + asked_ % kStages * kBytes + threadIdx.x * 16;
      if (asked_ + 1 < num_pages_) next_ = table_[asked_ + 1];
#pragma unroll
      for (int i = 0; i < kBytes / (kThreads * 16); ++i) copy_async(to + i * kThreads * 16, from + i * kThreads * 16);
      constexpr int kRest = kBytes % (kThreads * 16), kWhole = kBytes - kRest;
      if (kRest > 0 && static_cast<int>(threadIdx.x) * 16 < kRest) copy_async(to + kWhole, from + kWhole);
    }
    ++asked_;
    commit_copies();
  }

  const std::byte* base_;
  const std::int64_t page_bytes_;
  std::byte* shared_;
  const std::uint32_t to_;
  const std::int32_t* table_ = nullptr;
  const std::byte* from_ = nullptr;
  int num_pages_ = 0, asked_ = 0, given_ = 0;
  std::int32_t next_ = 0;
};

}  // namespace octavo::cuda::portable
