#include "cpu/tiled_expanded_attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "cpu/attention_cache.h"
#include "cpu/head_tiles.h"
#include "cpu/latent_form.h"
#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

struct ExpandedPath {
  HeadPath head;
  void (*unit)(const AttentionUnit&);
  void (*unpack)(const AttentionUnit&, std::int64_t, int, float*, std::int64_t, float*);
  void (*turn)(const float*, std::int64_t, int, float*);
};

struct ExpandedBlock {
  std::int32_t seq = 0;
  std::int64_t first_row = 0;  // of the step's
  std::int64_t rows = 0;
  std::int64_t position = 0;  // of the first
};

std::vector<ExpandedBlock> blocks_of(const ExpandedAttentionArgs& args) {
  const std::int32_t* query_start = ints(args.batch.query_start);
  std::vector<ExpandedBlock> blocks;
  for (std::int32_t seq = 0; seq < args.batch.num_seqs; ++seq) {
    if (query_start[seq] < args.first_row) continue;
    for (std::int64_t row = query_start[seq]; row < query_start[seq + 1]; row += kExpandedTokens)
      blocks.push_back({seq, row, std::min(kExpandedTokens, query_start[seq + 1] - row),
                        ints(args.batch.context)[seq] - (query_start[seq + 1] - row)});
  }
  std::stable_sort(blocks.begin(), blocks.end(), [](const ExpandedBlock& a, const ExpandedBlock& b) {
    return a.rows * (a.position + a.rows) > b.rows * (b.position + b.rows);  // the costliest first
  });
  return blocks;
}

constexpr std::int32_t kOnlyPage = 0;

class ExpandedTask {
 public:
  ExpandedTask(const ExpandedAttentionArgs& args, const PageLayout& layout, const ExpandedPath& path,
               const ExpandedBlock& block, std::int64_t head)
      : args_(args),
        path_(path),
        block_(block),
        head_(head),
        latent_(args.kv.format.segments[0].width),
        rope_(args.kv.format.segments[1].width),
        key_width_(args.q.size(2)),
        value_width_(args.out.size(2)),
        stride_((latent_ + kLinearPad - 1) / kLinearPad * kLinearPad) {
    point_at_cache(args.kv, layout, block.seq, 0, cache_);
    const std::int64_t state = value_width_ + 2;
    memory_ = make_floats(block_.rows * (key_width_ + state) + kTileRows * (stride_ + rope_ + key_width_) +
                          kSpanKeys * (key_width_ + value_width_));
    queries_ = memory_.get();
    page_ = queries_ + block_.rows * key_width_;
    latents_ = page_ + kSpanKeys * (key_width_ + value_width_);
    ropes_ = latents_ + kTileRows * stride_;
    keys_ = ropes_ + kTileRows * rope_;
    carried_ = keys_ + kTileRows * key_width_;
  }

  void run() {
    start();
    const std::int64_t context = block_.position + block_.rows;
    for (std::int64_t begin = 0; begin < context; begin += kSpanKeys) {
      for (std::int64_t at = begin; at < std::min(context, begin + kSpanKeys); at += kTileRows)
        make(at, std::min(kTileRows, context - at), at - begin);
      attend(begin);
    }
    store();
  }

 private:
  void start() {
    for (std::int64_t i = 0; i < block_.rows; ++i) {
      const std::byte* from = row_at(args_.q, block_.first_row + i, head_);
      float* to = queries_ + i * key_width_;
      if (args_.q.dtype() == DType::bf16)
        path_.head.widen(reinterpret_cast<const std::uint16_t*>(from), key_width_, to);
      else
        load_row(from, args_.q.dtype(), key_width_, to);
      float* state = carried_ + i * (value_width_ + 2);
      std::fill(state, state + value_width_ + 2, 0.0f);
      state[0] = -std::numeric_limits<float>::infinity();
    }
    // Numbers between the latents' width and their stride are never written again.
    std::fill(latents_, latents_ + kTileRows * stride_, 0.0f);
  }

  // Keys and values of `count` tokens from `position` on, at `place` of the page.
  void make(std::int64_t position, std::int64_t count, std::int64_t place) {
    for (std::int64_t t = 0; t < count; t += kTileKeys)
      path_.unpack(cache_, position + t, static_cast<int>(std::min<std::int64_t>(kTileKeys, count - t)),
                   latents_ + t * stride_, stride_, ropes_ + t * rope_);
    const std::int64_t nope = key_width_ - rope_;
    multiply(args_.key, count, keys_, nope);
    multiply(args_.value, count, page_ + kSpanKeys * key_width_ + place * value_width_, value_width_);
    for (std::int64_t t = 0; t < count; t += kKeyLanes) {
      float* block = page_ + (place + t) * key_width_;
      path_.turn(keys_ + t * nope, nope, static_cast<int>(nope), block);
      path_.turn(ropes_ + t * rope_, rope_, static_cast<int>(rope_), block + nope * kKeyLanes);
    }
  }

  void multiply(const HeadRows& rows, std::int64_t count, float* to, std::int64_t width) const {
    LinearTile tile = head_tile(rows.weight, head_ * rows.unit + rows.first, rows.count);
    tile.x = latents_;
    tile.x_stride = stride_;
    tile.rows = count;
    tile.out = to;
    tile.out_stride = width;
    rows.transposed ? path_.head.turned(tile) : path_.head.tile(tile);
  }

  // The span that begins at this position, for the rows that see some of it. Positions count from there.
  void attend(std::int64_t begin) const {
    const std::int64_t most = std::clamp<std::int64_t>(kUnitNumbers / std::max(key_width_, value_width_), 1, kUnitRows);
    AttentionUnit unit;
    unit.heads = 1;
    unit.q_token_stride = key_width_;
    unit.key = {.kind = CacheKind::f32, .width = static_cast<int>(key_width_)};
    unit.value = {.kind = CacheKind::f32,
                  .width = static_cast<int>(value_width_),
                  .offset = kSpanKeys * key_width_ * std::int64_t{sizeof(float)}};
    unit.pages = reinterpret_cast<const std::uint8_t*>(page_);
    unit.page_size = kSpanKeys;
    unit.page_table = &kOnlyPage;
    unit.scale = args_.rule.scale;
    unit.soft_cap = args_.rule.soft_cap;
    for (std::int64_t row = 0; row < block_.rows; row += most) {
      const std::int64_t count = std::min(most, block_.rows - row);
      if (block_.position + row + count <= begin) continue;
      unit.q = queries_ + row * key_width_;
      unit.tokens = static_cast<int>(count);
      unit.position = block_.position + row - begin;
      unit.carried = carried_ + row * (value_width_ + 2);
      path_.unit(unit);
    }
  }

  void store() const {
    for (std::int64_t i = 0; i < block_.rows; ++i) {
      float* state = carried_ + i * (value_width_ + 2);
      const float factor = 1.0f / state[1];
      for (std::int64_t c = 0; c < value_width_; ++c) state[2 + c] *= factor;
      store_row(state + 2, value_width_, row_at(args_.out, block_.first_row + i, head_), args_.out.dtype());
    }
  }

  const ExpandedAttentionArgs& args_;
  const ExpandedPath& path_;
  const ExpandedBlock& block_;
  const std::int64_t head_;
  const std::int64_t latent_, rope_, key_width_, value_width_;
  const std::int64_t stride_;  // of latents
  AttentionUnit cache_;        // where the records lie
  Floats memory_;
  float* queries_;  // [rows, key_width]
  float* page_;     // blocks of keys [key_width, 16], then values [kSpanKeys, value_width]
  float* latents_;  // [kTileRows, stride]
  float* ropes_;    // [kTileRows, rope]
  float* keys_;     // [kTileRows, key_width - rope]
  float* carried_;  // [rows, value_width + 2]
};

bool takes_tiles(const ExpandedAttentionArgs& args) {
  const auto fits = [](std::int64_t width) { return width % kKeyLanes == 0 && width <= kMaxHeadWidth; };
  const std::int64_t nope = args.q.size(2) - args.kv.format.segments[1].width;
  return has_tiles(args.kv.format) && fits(args.q.size(2)) && fits(nope) && fits(args.out.size(2)) &&
         has_head_tiles(args.key.weight) && has_head_tiles(args.value.weight);
}

void run_expanded_attention(ThreadPool& pool, const ExpandedAttentionArgs& args, const ExpandedPath& path) {
  if (!takes_tiles(args)) return plain::expanded_attention(pool, args);
  check_expanded_attention(args);
  const PageLayout layout = page_layout(args.kv.format, args.kv.page_size);
  const std::vector<ExpandedBlock> blocks = blocks_of(args);
  const std::int64_t heads = args.out.size(1);
  pool.run(std::ssize(blocks) * heads, [&](std::int64_t i) {
    ExpandedTask(args, layout, path, blocks[static_cast<std::size_t>(i / heads)], i % heads).run();
  });
}

}  // namespace

void avx512::expanded_attention(ThreadPool& pool, const ExpandedAttentionArgs& args) {
  run_expanded_attention(pool, args,
                         {{linear_tile, turned_linear_tile, widen}, attention_unit, unpack_latents, turn_keys});
}

void avx2::expanded_attention(ThreadPool& pool, const ExpandedAttentionArgs& args) {
  run_expanded_attention(pool, args,
                         {{linear_tile, turned_linear_tile, widen}, attention_unit, unpack_latents, turn_keys});
}

}  // namespace octavo::cpu
