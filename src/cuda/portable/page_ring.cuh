// PageRing: the pages of one sequence and KV head on their way into shared memory, kStages deep, copied whole by all
// threads of a block. Usage: start(), then for each page: wait() gives it to all, and its successor is asked for.
#pragma once

#include "cuda/portable/mma.cuh"
#include "cuda/portable/params.h"

namespace octavo::cuda::portable {

template <int kStages, int kThreads>
class PageRing {
 public:
  __device__ PageRing(const AttentionParams& p, std::byte* shared)
      : base_(p.pages), page_bytes_(p.page_bytes), bytes_(p.layout.head_bytes), shared_(shared) {}

  __device__ void start(const AttentionParams& p, int seq, int kv_head, int first_page, int num_pages) {
    table_ = p.page_table + std::int64_t{seq} * p.max_pages + first_page;
    from_ = base_ + std::int64_t{kv_head} * bytes_;
    num_pages_ = num_pages;
    asked_ = given_ = 0;
    next_ = table_[0];
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) ask();
  }

  // The next page, there for all threads. Everyone has left the page before it.
  __device__ const std::byte* wait() {
    wait_copies<kStages - 2>();
    __syncthreads();
    ask();
    return shared_ + given_++ % kStages * bytes_;
  }

 private:
  // A group of copies each time, empty at the end, so that their number tells what has arrived.
  __device__ void ask() {
    if (asked_ < num_pages_) {
      const std::byte* from = from_ + next_ * page_bytes_;
      const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_ + asked_ % kStages * bytes_));
      if (asked_ + 1 < num_pages_) next_ = table_[asked_ + 1];
      for (int i = threadIdx.x * 16; i < bytes_; i += kThreads * 16) copy_async(to + i, from + i);
    }
    ++asked_;
    commit_copies();
  }

  const std::byte* base_;
  const std::int64_t page_bytes_;
  const int bytes_;
  std::byte* shared_;
  const std::int32_t* table_ = nullptr;
  const std::byte* from_ = nullptr;
  int num_pages_ = 0, asked_ = 0, given_ = 0;
  std::int32_t next_ = 0;
};

}  // namespace octavo::cuda::portable
