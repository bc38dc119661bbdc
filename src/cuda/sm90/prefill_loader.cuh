// The loader of a prefill block: one thread draws tiles of rows, tells the consumers, and brings the pages of each.
//
// Tiles of rows are drawn from a counter, so that blocks that got short ones take more. The last block to find none
// leaves the counters at zero. Where the last tiles would leave most blocks without work their pages are cut into
// pieces. Tiles of as many heads as the L2 cache holds the pages of are drawn in turns. Places of a tile of tokens that
// lie in pages that no row sees are filled with a page that is seen: what such a page holds may be no number, and zero
// times it would be none either.
#pragma once

#include "cuda/portable/params.h"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/prefill_shape.h"

namespace octavo::cuda::sm90 {

using portable::AttentionParams;

// Where the n-th tile of tokens of a block lies, and its barriers.
template <class Shape>
class PrefillPipe {
 public:
  __device__ explicit PrefillPipe(std::uint32_t shared) : shared_(shared) {}

  // All threads call it, and a barrier follows.
  __device__ static void make(std::byte* shared) {
    constexpr std::uint32_t kFourOnes = 0x38383838u;
    constexpr int kWords = Shape::kOnesBytes / 4;
    if (threadIdx.x == 0) {
      const PrefillPipe pipe(shared_address(shared));
      for (int i = 0; i < Shape::kStages; ++i) {
        make_barrier(pipe.keys_full(i), 1);
        make_barrier(pipe.values_full(i), 1);
        make_barrier(pipe.keys_empty(i), 4 * Shape::kWarpgroups);
        make_barrier(pipe.values_empty(i), 4 * Shape::kWarpgroups);
      }
      for (int i = 0; i < 2; ++i) {
        make_barrier(pipe.task_ready(i), 1);
        make_barrier(pipe.task_read(i), 4 * Shape::kWarpgroups);
      }
      barriers_made();
    }
    if constexpr (Shape::kOnesApart)
      if (threadIdx.x < kWords) reinterpret_cast<std::uint32_t*>(shared + Shape::kOnes)[threadIdx.x] = kFourOnes;
    if constexpr (Shape::kOnesBehindPages)
      if (threadIdx.x < kWords)
        for (int page = 0; page < Shape::kStages * Shape::kPages; ++page)
          reinterpret_cast<std::uint32_t*>(shared + Shape::kValues + page * Shape::kValuePageBytes +
                                           Shape::kBlockBytes)[threadIdx.x] = kFourOnes;
    publish();
  }

  __device__ static int parity(int n) { return n / Shape::kStages & 1; }
  __device__ std::uint32_t keys(int n) const { return shared_ + Shape::kKeys + stage(n) * Shape::kKeyTileBytes; }
  __device__ std::uint32_t values(int n) const { return shared_ + Shape::kValues + stage(n) * Shape::kValueTileBytes; }
  __device__ std::uint32_t key_scales(int n) const {
    return shared_ + Shape::kKeyScales + stage(n) * Shape::kPages * Shape::kScalesOfPage;
  }
  __device__ std::uint32_t ones() const { return shared_ + Shape::kOnes; }
  __device__ std::uint32_t keys_full(int n) const { return barrier(stage(n)); }
  __device__ std::uint32_t keys_empty(int n) const { return barrier(Shape::kStages + stage(n)); }
  __device__ std::uint32_t values_full(int n) const { return barrier(2 * Shape::kStages + stage(n)); }
  __device__ std::uint32_t values_empty(int n) const { return barrier(3 * Shape::kStages + stage(n)); }
  __device__ std::uint32_t task_ready(int turn) const { return barrier(4 * Shape::kStages + turn % 2); }
  __device__ std::uint32_t task_read(int turn) const { return barrier(4 * Shape::kStages + 2 + turn % 2); }

 private:
  __device__ static int stage(int n) { return n % Shape::kStages; }
  __device__ std::uint32_t barrier(int i) const { return shared_ + Shape::kBarriers + i * kBarrierBytes; }
  std::uint32_t shared_;
};

// The same in all lanes, and the compiler knows.
__device__ __forceinline__ PrefillTask uniform(const PrefillTask& task) {
  const auto same = [](int x) { return __shfl_sync(~0u, x, 0); };
  return {same(task.first_token), same(task.num_rows),   same(task.offset),    same(task.first_row),
          same(task.kv_head),     same(task.first_page), same(task.last_page), same(task.piece)};
}

// The pages that a tile of rows sees, and the tiles of tokens that they are in.
template <class Shape>
__device__ PrefillTask task_of(const AttentionParams& p, const PrefillItem& item, int kv_head) {
  PrefillTask task;
  task.first_token = p.query_start[item.seq];
  const int length = p.query_start[item.seq + 1] - task.first_token;
  task.num_rows = length * p.group;
  task.offset = p.context[item.seq] - length;
  task.first_row = item.first_row;
  task.kv_head = kv_head;
  const int first = task.offset + item.first_row / p.group;
  task.first_page = p.window > 0 ? max(0, first - p.window + 1) / kPageTokens : 0;
  const int last_row = min(item.first_row + Shape::kRows, task.num_rows) - 1;
  task.last_page = (task.offset + last_row / p.group) / kPageTokens;
  task.piece = 1 << 8;
  return task;
}

// The order in which tiles of rows and KV heads are drawn: `together` heads in turns over all items, then the next. The
// last draws, those after as many as blocks are busy with to the end, are `parts` pieces of a tile each.
class PrefillDraws {
 public:
  __device__ PrefillDraws(const AttentionParams& p, int blocks)
      : items_(p.plan.counts[1]), together_(p.heads_together), whole_(items_ * p.kv_heads) {
    total_ = whole_;
    const int last = whole_ % blocks;
    if (last == 0 || p.plan.pieces == nullptr) return;
    const int tiles = tiles_at_end(p);
    float least = static_cast<float>(tiles);
    for (int parts = 2; parts <= kMaxPieces && last * parts <= kPieceRounds * blocks; ++parts) {
      const int rounds = (last * parts + blocks - 1) / blocks;
      const float time = static_cast<float>(rounds) * (static_cast<float>(tiles) / parts + kPieceTiles);
      if (time < least) least = time, parts_ = parts;
    }
    if (parts_ == 1) return;
    whole_ -= last;
    total_ = whole_ + last * parts_;
  }

  __device__ int total() const { return total_; }
  // The first piece of the i-th tile that is cut into some; total() where there is none.
  __device__ int first_piece(int i) const { return parts_ > 1 ? whole_ + i * parts_ : total_; }
  __device__ PrefillItem item(const AttentionParams& p, int draw) const {
    return p.plan.prefills[tile_of(draw) % (items_ * together_) / together_];
  }
  __device__ int kv_head(int draw) const {
    const int tile = tile_of(draw);
    return tile / (items_ * together_) * together_ + tile % together_;
  }
  // The piece of a task that a draw is; false where it has too few tiles for so many.
  template <class Shape>
  __device__ bool cut(int draw, PrefillTask& task) const {
    if (draw < whole_) return true;
    const int first = task.first_page / Shape::kPages, tiles = task.last_page / Shape::kPages - first + 1;
    const int parts = min(parts_, tiles), part = (draw - whole_) % parts_;
    if (part >= parts) return false;
    const int begin = first + tiles * part / parts, end = first + tiles * (part + 1) / parts;
    task.first_page = max(task.first_page, begin * Shape::kPages);
    task.last_page = min(task.last_page, end * Shape::kPages - 1);
    task.piece = part | parts << 8 | (draw - whole_) / parts_ * parts_ << 16;
    return true;
  }

 private:
  static constexpr int kPieceTiles = 6;  // what a piece takes more than its tiles of tokens, about

  __device__ int tile_of(int draw) const { return draw < whole_ ? draw : whole_ + (draw - whole_) / parts_; }
  // Of tokens, that the last tile of rows walks over: in pages of 128, as most kernels have them.
  __device__ int tiles_at_end(const AttentionParams& p) const {
    const PrefillItem item = p.plan.prefills[items_ - 1];
    const int length = p.query_start[item.seq + 1] - p.query_start[item.seq];
    const int seen = p.context[item.seq] - length + item.first_row / p.group + 1;
    return (p.window > 0 ? min(seen, p.window) : seen) / (2 * kPageTokens) + 1;
  }

  int items_, together_, whole_, total_, parts_ = 1;
};

// The tiles of one task, from the n-th of the block on; gives how many there are.
template <class Shape>
__device__ void bring_tiles(const AttentionParams& p, const PrefillPipe<Shape>& pipe, const std::int32_t* table,
                            const std::byte* head, int first_page, int last_page, int n) {
#pragma unroll 1
  for (int page = first_page / Shape::kPages * Shape::kPages; page <= last_page; page += Shape::kPages, ++n) {
    const std::byte* from[Shape::kPages];
#pragma unroll
    for (int i = 0; i < Shape::kPages; ++i)
      from[i] = head + table[min(max(page + i, first_page), last_page)] * p.page_bytes;
    const std::uint32_t keys = pipe.keys(n), keys_full = pipe.keys_full(n);
    wait(pipe.keys_empty(n), PrefillPipe<Shape>::parity(n) ^ 1);
    arrive_expecting(keys_full, Shape::kKeyTileBytes + Shape::kPages * Shape::kScalesOfPage);
#pragma unroll
    for (int i = 0; i < Shape::kPages; ++i)
#pragma unroll
      for (int chunk = 0; chunk < Shape::kRowBytes / Shape::kChunk; ++chunk)
        copy_bulk(keys + (chunk * Shape::kTokens + i * kPageTokens) * Shape::kChunk,
                  from[i] + chunk * kPageTokens * Shape::kChunk, kPageTokens * Shape::kChunk, keys_full);
    if constexpr (Shape::kIntegerKeys) {  // they lie behind V
#pragma unroll
      for (int i = 0; i < Shape::kPages; ++i)
        copy_bulk(pipe.key_scales(n) + i * Shape::kScalesOfPage, from[i] + 2 * Shape::kBlockBytes, Shape::kScalesOfPage,
                  keys_full);
    }
    const std::uint32_t values = pipe.values(n), values_full = pipe.values_full(n);
    wait(pipe.values_empty(n), PrefillPipe<Shape>::parity(n) ^ 1);
    arrive_expecting(values_full, Shape::kPages * Shape::kBlockBytes);
#pragma unroll
    for (int i = 0; i < Shape::kPages; ++i)
      copy_bulk(values + i * Shape::kValuePageBytes, from[i] + Shape::kBlockBytes, Shape::kBlockBytes, values_full);
  }
}

template <class Shape>
__device__ void feed(const AttentionParams& p, std::byte* shared) {
  const PrefillPipe<Shape> pipe(shared_address(shared));
  auto& draws = *reinterpret_cast<PrefillDraws*>(shared + Shape::kDraws);  // not in this thread's few registers
  static_assert(Shape::kDraws + sizeof(PrefillDraws) <= Shape::kSharedBytes);
  draws = PrefillDraws(p, static_cast<int>(gridDim.x));
  int n = 0;
#pragma unroll 1
  for (int turn = 0;;) {
    const int draw = static_cast<int>(atomicAdd(&p.plan.tickets[0], 1u));
    const bool more = draw < draws.total();
    const PrefillItem item = more ? draws.item(p, draw) : p.plan.prefills[0];
    PrefillTask task = task_of<Shape>(p, item, more ? draws.kv_head(draw) : -1);
    if (more && !draws.cut<Shape>(draw, task)) continue;
    wait(pipe.task_read(turn), (turn / 2 & 1) ^ 1);
    reinterpret_cast<PrefillTask*>(shared + Shape::kTasks)[turn % 2] = task;
    arrive(pipe.task_ready(turn));
    if (!more) break;
    ++turn;
    bring_tiles<Shape>(p, pipe, p.page_table + std::int64_t{item.seq} * p.max_pages,
                       p.pages + std::int64_t{task.kv_head} * p.layout.head_bytes, task.first_page, task.last_page, n);
    n += task.last_page / Shape::kPages - task.first_page / Shape::kPages + 1;
  }
  if (atomicAdd(&p.plan.tickets[1], 1u) == gridDim.x - 1) p.plan.tickets[0] = p.plan.tickets[1] = 0;
}

}  // namespace octavo::cuda::sm90
