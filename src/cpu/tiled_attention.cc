#include "cpu/tiled_attention.h"

#include <iterator>
#include <memory>
#include <vector>

#include "cpu/attention_cache.h"
#include "cpu/attention_pairs.h"
#include "cpu/attention_plan.h"
#include "cpu/attention_tile.h"
#include "cpu/cache_rows.h"
#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

struct AttentionPath {
  void (*unit)(const AttentionUnit&);
  void (*merge)(const AttentionUnit&);
};

bool takes_tiles(const AttentionArgs& args) { return has_tiles(args.kv.format) && is_activation(args.out); }

class AttentionRun {
 public:
  explicit AttentionRun(const AttentionArgs& args)
      : args_(args),
        layout_(page_layout(args.kv.format, args.kv.page_size)),
        plan_(static_cast<const CpuAttentionPlan&>(args.plan).units()),
        value_width_(args.kv.format.segments[is_latent(args.kv.format) ? 0 : 1].width),
        partial_stride_(value_width_ + 2),
        partial_(new float[static_cast<std::size_t>(plan_.partial_rows() * partial_stride_)]) {}

  void check_shapes() const {
    check_view(args_.kv, layout_);
    const KvFormat& format = args_.kv.format;
    const Tensor& q = args_.query.values;
    const std::int64_t width = format.segments[0].width + (is_latent(format) ? format.segments[1].width : 0);
    check(q.dtype() == DType::f32 && q.size(2) == width && q.size(1) % format.segments[0].heads == 0,
          "queries do not have the shape that query_spec() says");
    check(args_.out.size(0) == q.size(0) && args_.out.size(1) == q.size(1) && args_.out.size(2) == value_width_,
          "the shape of attention's result");
    check(args_.rule.sinks.empty() || args_.rule.sinks.elements() == q.size(1), "one sink a query head");
  }

  void run(ThreadPool& pool, const AttentionPath& path) const {
    run_all(pool, plan_.units(), path.unit);
    run_all(pool, plan_.merges(), path.merge);
  }

 private:
  // Those of rows that there are: the step may have more.
  void run_all(ThreadPool& pool, const std::vector<PlannedUnit>& units, void (*run_one)(const AttentionUnit&)) const {
    const std::int64_t rows = args_.query.values.size(0);
    pool.run(std::ssize(units), [&](std::int64_t i) {
      const PlannedUnit& planned = units[static_cast<std::size_t>(i)];
      if (planned.first_row >= rows) return;
      AttentionUnit unit = unit_of(planned);
      const auto next = static_cast<std::size_t>(i + pool.num_threads());
      if (next < units.size() && units[next].first_row < rows) show_next(units[next], unit);
      run_one(unit);
    });
  }

  // Threads take units in turns: probably this one is next.
  void show_next(const PlannedUnit& next, AttentionUnit& unit) const {
    const KvView& kv = args_.kv;
    if (kv.page_size % kTileKeys != 0 || args_.rule.window > 0) return;
    const std::int64_t first = next.first_span * kSpanKeys;
    const std::byte* page =
        kv.pages + kv.page_table[next.seq * std::int64_t{kv.max_pages} + first / kv.page_size] * kv.page_bytes;
    const auto at = [&](int segment) {
      const int place = static_cast<int>(first % kv.page_size);
      return reinterpret_cast<const std::uint8_t*>(page + layout_.segments[segment].row(next.kv_head, place));
    };
    unit.next_keys = at(0);
    unit.next_values = at(1);
  }

  AttentionUnit unit_of(const PlannedUnit& planned) const {
    const Tensor& q = args_.query.values;
    AttentionUnit unit;
    unit.q = reinterpret_cast<const float*>(row_at(q, planned.first_row, planned.first_head));
    unit.q_token_stride = q.stride(0);
    unit.q_head_stride = q.stride(1);
    unit.tokens = planned.tokens;
    unit.heads = planned.heads;
    unit.position = planned.position;
    point_at_cache(args_.kv, layout_, planned.seq, planned.kv_head, unit);
    unit.scale = args_.rule.scale;
    unit.soft_cap = args_.rule.soft_cap;
    unit.window = args_.rule.window;
    unit.sinks = args_.rule.sinks.empty() ? nullptr : floats(args_.rule.sinks) + planned.first_head;
    unit.first_span = planned.first_span;
    unit.last_span = planned.last_span;
    if (planned.partial >= 0) unit.partial = partial_.get() + planned.partial * partial_stride_;
    unit.out = row_at(args_.out, planned.first_row, planned.first_head);
    unit.out_token_stride = args_.out.stride(0);
    unit.out_head_stride = args_.out.stride(1);
    unit.out_is_bf16 = args_.out.dtype() == DType::bf16;
    return unit;
  }

  const AttentionArgs& args_;
  const PageLayout layout_;
  const AttentionUnits& plan_;
  const std::int64_t value_width_;
  const std::int64_t partial_stride_;
  const std::unique_ptr<float[]> partial_;
};

void run_attention(ThreadPool& pool, const AttentionArgs& args, const AttentionPath& path) {
  const AttentionRun run(args);
  run.check_shapes();
  run.run(pool, path);
}

}  // namespace

void avx512::attention(ThreadPool& pool, const AttentionArgs& args, bool deterministic) {
  if (!takes_tiles(args)) return plain::attention(pool, args, deterministic);
  run_attention(pool, args, {attention_unit, merge_attention});
}

// Whole numbers round what a chunk's rows see, and a row's bits then depend on whether it came in a chunk.
void avx512vnni::attention(ThreadPool& pool, const AttentionArgs& args, bool deterministic) {
  if (deterministic || !takes_tiles(args)) return avx512::attention(pool, args, deterministic);
  run_attention(pool, args, {attention_unit, avx512::merge_attention});
}

void avx2::attention(ThreadPool& pool, const AttentionArgs& args, bool deterministic) {
  if (!takes_tiles(args)) return plain::attention(pool, args, deterministic);
  run_attention(pool, args, {attention_unit, merge_attention});
}

}  // namespace octavo::cpu
