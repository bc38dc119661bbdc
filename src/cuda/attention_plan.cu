#include <algorithm>

#include "base/check.h"
#include "cuda/attention_plan.h"
#include "cuda/page_layout.cuh"

namespace octavo::cuda {

namespace {

constexpr int kPlanThreads = 256;
constexpr std::int32_t kLeastSplit = 2;  // pages
constexpr float kSplitCost = 2.0f;       // what a split takes beside its pages, and more for each that is merged, in
constexpr float kMergeCost = 0.125f;     // times of a page
constexpr float kForever = 3e38f;
constexpr std::int32_t kTurnsOfSplits = 4;  // of all blocks, that contexts are cut into beyond two for each sequence
constexpr const char* kPurpose = "attention's plan";

struct PlanParams {
  const std::int32_t* query_start;
  const std::int32_t* context;
  std::int32_t num_seqs;
  std::int32_t num_decodes;
  std::int32_t group;
  std::int32_t window;
  std::int32_t blocks;       // of decodes, at once
  std::int32_t parts;        // blocks that a split takes: its heads
  std::int32_t max_splits;   // of a sequence
  std::int32_t max_decodes;  // of the list
  DecodeItem* decodes;
  std::int32_t tile_rows[kMaxTileSizes];
  PrefillItem* prefills[kMaxTileSizes];
  std::int32_t* counts;  // decodes and prefills, for each size of tiles
};

// The pages that a decode sees.
struct SeenPages {
  std::int32_t first, count;

  __device__ SeenPages(std::int32_t context, std::int32_t window) {
    first = window > 0 ? max(0, context - window) / kPageTokens : 0;
    count = (context + kPageTokens - 1) / kPageTokens - first;
  }
};

__device__ std::int32_t splits_of(const PlanParams& p, std::int32_t pages, std::int32_t split_pages) {
  return min(p.max_splits, (pages + split_pages - 1) / split_pages);
}
// The same where none of equal splits is empty.
__device__ std::int32_t even_splits_of(const PlanParams& p, std::int32_t pages, std::int32_t split_pages) {
  if (pages == 0) return 0;
  const std::int32_t splits = splits_of(p, pages, split_pages);
  const std::int32_t each = (pages + splits - 1) / splits;
  return (pages + each - 1) / each;
}

// What decodes take where a split has so many pages at most, in times of a page: blocks take their splits one after the
// other, and beside its pages each costs as much as some, and more to merge. Short sequences are one split anyway, and
// do not count: nor do those that pad a step. A list that is too long takes forever.
__device__ float time_of(const PlanParams& p, std::int32_t split_pages) {
  std::int32_t splits = 0, longest = 0;
  const float inverse = 1.0f / static_cast<float>(split_pages);
  for (std::int32_t seq = 0; seq < p.num_decodes; ++seq) {
    const std::int32_t pages = SeenPages(p.context[seq], p.window).count;
    if (pages <= kLeastSplit) continue;
    splits += min(p.max_splits, 1 + static_cast<std::int32_t>((static_cast<float>(pages) - 0.5f) * inverse));
    longest = max(longest, pages);
  }
  if (splits == 0) return 0.0f;
  if (splits + p.num_decodes > p.max_decodes) return kForever;
  const std::int32_t turns = (splits * p.parts + p.blocks - 1) / p.blocks;
  const std::int32_t of_longest = splits_of(p, longest, split_pages);
  const std::int32_t pages = (longest + of_longest - 1) / of_longest;
  const std::int32_t group = p.max_splits > kMaxSplits ? split_group(of_longest) : 1;
  const std::int32_t merged = group == 1 ? of_longest : group + (of_longest + group - 1) / group;
  return static_cast<float>(turns) * (static_cast<float>(pages) + kSplitCost) + kMergeCost * static_cast<float>(merged);
}

// The most pages of the thread whose time is least.
__device__ std::int32_t quickest(float time, std::int32_t split_pages, std::uint64_t* shared) {
  shared[threadIdx.x] =
      std::uint64_t{__float_as_uint(time)} << 32 | (0xFFFFFFFFu - static_cast<std::uint32_t>(split_pages));
  __syncthreads();
  for (int step = kPlanThreads / 2; step > 0; step /= 2) {
    if (static_cast<int>(threadIdx.x) < step)
      shared[threadIdx.x] = min(shared[threadIdx.x], shared[threadIdx.x + step]);
    __syncthreads();
  }
  const auto best = static_cast<std::int32_t>(0xFFFFFFFFu - static_cast<std::uint32_t>(shared[0]));
  __syncthreads();
  return best;
}

// How many pages a split has at most, of all threads: first one of sixteen steps an octave, then the best near it.
__device__ std::int32_t choose_split(const PlanParams& p, std::uint64_t* shared) {
  static_assert(kPlanThreads == 256);
  if (p.num_decodes == 0) return kLeastSplit;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t step = max(kLeastSplit, ((16 + thread % 16) << thread / 16) / 8);
  const std::int32_t coarse = quickest(time_of(p, step), step, shared);
  const std::int32_t near = max(kLeastSplit, coarse - thread);
  return quickest(time_of(p, near), near, shared);
}

// The sum of `count` over the threads before this one, and over all.
__device__ std::int32_t sum_before(std::int32_t count, std::int32_t* shared, std::int32_t& all) {
  shared[threadIdx.x] = count;
  __syncthreads();
  for (int step = 1; step < kPlanThreads; step *= 2) {
    const std::int32_t other = static_cast<int>(threadIdx.x) >= step ? shared[threadIdx.x - step] : 0;
    __syncthreads();
    shared[threadIdx.x] += other;
    __syncthreads();
  }
  all = shared[kPlanThreads - 1];
  const std::int32_t before = shared[threadIdx.x] - count;
  __syncthreads();
  return before;
}

__device__ void list_decode(const PlanParams& p, std::int32_t seq, const SeenPages& seen, std::int32_t splits,
                            std::int32_t at) {
  const std::int32_t pages = (seen.count + splits - 1) / splits;
  for (std::int32_t split = 0; split < splits; ++split) {
    const std::int32_t begin = split * pages;
    p.decodes[at + split] = {.seq = seq,
                             .context = p.context[seq],
                             .first_page = seen.first + begin,
                             .num_pages = static_cast<std::uint16_t>(min(pages, seen.count - begin)),
                             .split = static_cast<std::uint8_t>(split),
                             .splits = static_cast<std::uint8_t>(splits)};
  }
}

__global__ void plan_kernel(const PlanParams p) {
  __shared__ std::int32_t shared[kPlanThreads];
  __shared__ std::uint64_t times[kPlanThreads];
  const std::int32_t split_pages = choose_split(p, times);
  std::int32_t decodes = 0, prefills[kMaxTileSizes] = {};
  for (std::int32_t base = 0; base < p.num_seqs; base += kPlanThreads) {
    const std::int32_t seq = base + threadIdx.x;
    const bool exists = seq < p.num_seqs;
    const std::int32_t rows = exists ? (p.query_start[seq + 1] - p.query_start[seq]) * p.group : 0;
    const SeenPages seen(exists ? p.context[seq] : 0, p.window);
    const std::int32_t splits = seq < p.num_decodes ? even_splits_of(p, seen.count, split_pages) : 0;
    std::int32_t all = 0;
    const std::int32_t at = decodes + sum_before(splits, shared, all);
    decodes += all;
    if (splits > 0) list_decode(p, seq, seen, splits, at);
#pragma unroll
    for (int size = 0; size < kMaxTileSizes; ++size) {
      const std::int32_t tile_rows = p.tile_rows[size];
      if (tile_rows == 0) continue;
      const std::int32_t tiles = seq >= p.num_decodes ? (rows + tile_rows - 1) / tile_rows : 0;
      const std::int32_t tile_at = prefills[size] + sum_before(tiles, shared, all);
      prefills[size] += all;
      for (std::int32_t i = 0; i < tiles; ++i) p.prefills[size][tile_at + i] = {seq, (tiles - 1 - i) * tile_rows};
    }
  }
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int size = 0; size < kMaxTileSizes; ++size) {
    p.counts[2 * size] = decodes;
    p.counts[2 * size + 1] = prefills[size];
  }
}

Status allocate(Device& device, Buffer& buffer, std::size_t bytes) {
  OCTAVO_TRY(buffer, device.allocate(bytes, kPurpose));
  return {};
}

}  // namespace

Result<std::unique_ptr<PagePlan>> PagePlan::create(Device& device, const AttentionShape& shape, int max_seqs,
                                                   int max_tokens, bool deterministic) {
  auto plan = std::unique_ptr<PagePlan>(new PagePlan(shape, max_seqs, max_tokens));
  int ordinal = 0;
  octavo::check(
      cudaGetDevice(&ordinal) == cudaSuccess &&
          cudaDeviceGetAttribute(&plan->num_processors_, cudaDevAttrMultiProcessorCount, ordinal) == cudaSuccess,
      "a plan is made where a device is");
  OCTAVO_TRY(plan->launches_, ready_rows(shape, deterministic));
  for (const RowLaunch& launch : plan->launches_) {
    auto& sizes = plan->tile_rows_;
    if (launch.row->phase == portable::Phase::decode) {
      const std::int32_t turn = (plan->num_processors_ * launch.blocks + plan->kv_heads_ - 1) / plan->kv_heads_;
      plan->max_decodes_ = std::max(plan->max_decodes_, 2 * max_seqs + kTurnsOfSplits * turn);
      continue;
    }
    if (std::find(sizes.begin(), sizes.end(), launch.row->tile_rows) != sizes.end()) continue;
    const auto place = std::find(sizes.begin(), sizes.end(), 0);
    octavo::check(place != sizes.end(), "kernels of a head size have two sizes of tiles at most");
    *place = launch.row->tile_rows;
  }
  cudaFuncAttributes loaded;  // a kernel is loaded when it is first asked for, and recordings do not allow that
  octavo::check(cudaFuncGetAttributes(&loaded, plan_kernel) == cudaSuccess, "the kernel that plans is there");
  OCTAVO_TRY(plan->reserve(device));
  return {std::move(plan)};
}

std::int32_t PagePlan::max_prefills(std::int64_t tokens, int num_seqs, std::int32_t tile_rows) const {
  return tile_rows == 0 ? 0 : static_cast<std::int32_t>(tokens * (q_heads_ / kv_heads_) / tile_rows) + num_seqs;
}

PrefillItem* PagePlan::list(int i) const {
  static_assert(kMaxTileSizes == 2);
  return reinterpret_cast<PrefillItem*>(prefills_.data()) +
         (i == 0 ? 0 : max_prefills(max_tokens_, max_seqs_, tile_rows_[0]));
}

const RowLaunch& PagePlan::launch(const KvFormat& format, portable::Phase phase) const {
  for (const RowLaunch& launch : launches_)
    if (launch.row->phase == phase && has_kinds(*launch.row, format)) return launch;
  octavo::check(false, "a cache that this wing refuses");
  return launches_.front();
}

Status PagePlan::reserve(Device& device) {
  const auto heads = static_cast<std::size_t>(q_heads_);
  std::size_t tiles = 0;
  for (const std::int32_t size : tile_rows_)
    tiles += static_cast<std::size_t>(max_prefills(max_tokens_, max_seqs_, size));
  const auto decodes = static_cast<std::size_t>(max_decodes_);
  const std::size_t partials = decodes * heads;
  OCTAVO_TRY(allocate(device, decodes_, decodes * sizeof(DecodeItem)));
  OCTAVO_TRY(allocate(device, prefills_, tiles * sizeof(PrefillItem)));
  OCTAVO_TRY(allocate(device, counts_, kMaxTileSizes * 2 * sizeof(std::int32_t)));
  std::size_t floats = 0;
  const std::size_t pieces = kPieceRounds * static_cast<std::size_t>(num_processors_);
  for (const RowLaunch& launch : launches_)
    floats = std::max({floats, partials * static_cast<std::size_t>(launch.row->width),
                       pieces * static_cast<std::size_t>(launch.row->piece_floats * launch.blocks)});
  OCTAVO_TRY(allocate(device, partial_, floats * sizeof(float)));
  OCTAVO_TRY(allocate(device, partial_sums_, partials * sizeof(float2)));
  OCTAVO_TRY(allocate(device, arrivals_, (2 * partials + 2) * sizeof(std::uint32_t)));
  device.fill_zero(arrivals_.data(), arrivals_.size());
  return {};
}

void PagePlan::make(cudaStream_t stream, const PlanAttentionArgs& args) {
  check(args.batch.num_seqs <= max_seqs_ && args.batch.num_tokens <= max_tokens_, "a step is within its plan's limits");
  check(args.shape.q_heads == q_heads_ && args.shape.format.segments[0].heads == kv_heads_,
        "a plan serves the shape that it was made for");
  const RowLaunch& decode = launch(args.shape.format, portable::Phase::decode);
  const std::int32_t group = q_heads_ / kv_heads_;
  const PlanParams p{.query_start = args.batch.query_start.data<std::int32_t>(),
                     .context = args.batch.context.data<std::int32_t>(),
                     .num_seqs = args.batch.num_seqs,
                     .num_decodes = args.batch.num_decodes,
                     .group = group,
                     .window = args.shape.window,
                     .blocks = num_processors_ * decode.blocks,
                     .parts = kv_heads_ * ((group + decode.row->tile_rows - 1) / decode.row->tile_rows),
                     .max_splits = decode.row->max_splits,
                     .max_decodes = max_decodes_,
                     .decodes = reinterpret_cast<DecodeItem*>(decodes_.data()),
                     .tile_rows = {tile_rows_[0], tile_rows_[1]},
                     .prefills = {list(0), list(1)},
                     .counts = reinterpret_cast<std::int32_t*>(counts_.data())};
  plan_kernel<<<1, kPlanThreads, 0, stream>>>(p);
}

PlanView PagePlan::view(const portable::KernelRow& row) const {
  const int size = row.phase == portable::Phase::prefill && row.tile_rows == tile_rows_[1] ? 1 : 0;
  return {.decodes = reinterpret_cast<const DecodeItem*>(decodes_.data()),
          .prefills = list(size),
          .counts = reinterpret_cast<const std::int32_t*>(counts_.data()) + 2 * size,
          .partial = reinterpret_cast<float*>(partial_.data()),
          .partial_sums = reinterpret_cast<float2*>(partial_sums_.data()),
          .arrivals = reinterpret_cast<std::uint32_t*>(arrivals_.data()),
          .tickets = reinterpret_cast<std::uint32_t*>(arrivals_.data()) + std::size_t(2) * max_decodes_ * q_heads_,
          .pieces = row.piece_floats > 0 ? reinterpret_cast<float*>(partial_.data()) : nullptr};
}

}  // namespace octavo::cuda
