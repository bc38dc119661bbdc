// PageRing: the pages of one sequence and KV head on their way into shared memory, kStages deep and kPages at a time,
// copied whole by all threads of a block. Usage: start(), then for each stage: wait() gives it to all, and what follows
// the stages that are on their way is asked for.
//
// A warp reads page numbers 32 at a time, so that no copy waits for the number of its page.
#pragma once

#include "cuda/portable/page_image.cuh"
#include "cuda/shared_address.cuh"

namespace octavo::cuda::portable {

template <int kWidth, KvElem kKey, KvElem kValue, int kStages, int kPages, int kThreads>
class PageRing {
 public:
  using Image = PageImage<kWidth, kKey, kValue>;
  static constexpr int kBytes = Image::kBytes;
  static_assert(kBytes % 16 == 0 && 32 % kPages == 0);

  // No barrier stands between this and the first wait(): what is cleared is read behind it.
  __device__ PageRing(const AttentionParams& p, std::byte* shared)
      : p_(p), shared_(shared), to_(shared_address(shared)) {
    if (!p.layout.in_pieces) return;
    for (int i = 0; i < kStages * kPages; ++i)
      clear_padding<kThreads>(shared + i * kBytes, Image::kKeyRow, p.layout.width * elem_bytes(kKey));
  }

  // The page numbers of a sequence from one on, and this lane's of the first 32.
  __device__ static const std::int32_t* table_of(const AttentionParams& p, int seq, int first_page) {
    return p.page_table + std::int64_t{seq} * p.max_pages + first_page;
  }
  __device__ static std::int32_t numbers_of(const std::int32_t* table, int num_pages) {
    const int lane = threadIdx.x % 32;
    return lane < num_pages ? table[lane] : 0;
  }

  // numbers: numbers_of(table, num_pages). No thread reads a page any more.
  __device__ void start(const std::int32_t* table, std::int32_t numbers, int kv_head, int num_pages) {
    table_ = static_cast<std::int32_t>(table - p_.page_table);
    kv_head_ = kv_head;
    num_pages_ = num_pages;
    given_ = 0;
    numbers_ = numbers;
#pragma unroll
    for (int i = 0; i < kStages; ++i) ask(i);
  }

  // The next kPages pages, there for all threads; beyond the last lies what was there. Everyone has left the stage
  // before.
  __device__ const std::byte* wait() {
    if (given_ == 0) {
      wait_copies<kStages - 1>();
      __syncthreads();
    } else {
      wait_copies<kStages - 2>();
      __syncthreads();
      ask(given_ + kStages - 1);
    }
    return shared_ + given_++ % kStages * (kPages * kBytes);
  }

 private:
  // A group of copies each time, empty at the end, so that their number tells what has arrived.
  __device__ void ask(int stage_number) {
    const std::uint32_t stage = to_ + stage_number % kStages * (kPages * kBytes);
    const int first = stage_number * kPages;
    if (first % 32 == 0 && first > 0) numbers_ = numbers_of(p_.page_table + table_ + first, num_pages_ - first);
#pragma unroll
    for (int i = 0; i < kPages; ++i) {
      if (first + i >= num_pages_) break;
      const std::byte* page = p_.pages + __shfl_sync(~0u, numbers_, (first + i) % 32) * p_.page_bytes +
                              std::int64_t{kv_head_} * p_.layout.head_bytes;
      if (p_.layout.in_pieces) {
        place_page<kWidth, kKey, kValue, kThreads>(stage + i * kBytes, page, p_.layout);
      } else {
        copy_whole(stage + i * kBytes + threadIdx.x * 16, page + threadIdx.x * 16);
      }
    }
    commit_copies();
  }

  __device__ static void copy_whole(std::uint32_t to, const std::byte* from) {
#pragma unroll
    for (int i = 0; i < kBytes / (kThreads * 16); ++i) copy_async(to + i * kThreads * 16, from + i * kThreads * 16);
    constexpr int kRest = kBytes % (kThreads * 16), kWhole = kBytes - kRest;
    if (kRest > 0 && static_cast<int>(threadIdx.x) * 16 < kRest) copy_async(to + kWhole, from + kWhole);
  }

  const AttentionParams& p_;
  std::byte* shared_;
  const std::uint32_t to_;
  std::int32_t table_ = 0;  // where the sequence's page numbers begin
  int kv_head_ = 0, num_pages_ = 0, given_ = 0;
  std::int32_t numbers_ = 0;
};

}  // namespace octavo::cuda::portable
