#include "cpu/tiled_attention.h"

#include <memory>

#include "cpu/attention_plan.h"
#include "cpu/attention_tile.h"
#include "cpu/cache_rows.h"
#include "cpu/page_layout.h"
#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

struct AttentionPath {
  void (*unit)(const AttentionUnit&);
  void (*merge)(const AttentionUnit&);
};

bool has_tiles(const AttentionArgs& args) {
  const KvFormat& format = args.kv.format;
  if (format.segments[0].part != KvPart::key) return false;
  for (int i = 0; i < 2; ++i)
    if (format.segments[i].width % kKeyLanes != 0 || format.segments[i].width > kMaxHeadWidth) return false;
  return is_activation(args.out);
}

CacheKind kind_of(KvElem elem) {
  switch (elem) {
    case KvElem::f32:
      return CacheKind::f32;
    case KvElem::bf16:
      return CacheKind::bf16;
    case KvElem::e4m3:
      return CacheKind::e4m3;
    case KvElem::e5m2:
      return CacheKind::e5m2;
    case KvElem::int8:
      return CacheKind::int8;
  }
  return CacheKind::f32;
}

CacheSegment segment_of(const KvView& view, const PageLayout& layout, int index, int head) {
  const KvSegment& segment = view.format.segments[index];
  CacheSegment result;
  result.kind = kind_of(segment.elem);
  result.width = segment.width;
  result.offset = layout.segments[index].row(head, 0);
  if (segment.grain == KvGrain::token_head) result.scale_offset = layout.segments[index].scale(head, 0);
  if (is_8bit(segment.elem) && (segment.grain == KvGrain::tensor || segment.grain == KvGrain::head))
    result.scale = view.scales[index][head];
  return result;
}

class AttentionRun {
 public:
  explicit AttentionRun(const AttentionArgs& args)
      : args_(args),
        layout_(page_layout(args.kv.format, args.kv.page_size)),
        plan_(static_cast<const CpuAttentionPlan&>(args.plan).units()),
        partial_stride_(args.kv.format.segments[1].width + 2),
        partial_(new float[static_cast<std::size_t>(plan_.partial_rows() * partial_stride_)]) {}

  void check_shapes() const {
    check_view(args_.kv, layout_);
    const KvFormat& format = args_.kv.format;
    const Tensor& q = args_.query.values;
    check(q.dtype() == DType::f32 && q.size(2) == format.segments[0].width && q.size(1) % format.segments[0].heads == 0,
          "queries do not have the shape that query_spec() says");
    check(args_.out.size(0) == q.size(0) && args_.out.size(1) == q.size(1) &&
              args_.out.size(2) == format.segments[1].width,
          "the shape of attention's result");
    check(args_.rule.sinks.empty() || args_.rule.sinks.elements() == q.size(1), "one sink a query head");
  }

  void run(ThreadPool& pool, const AttentionPath& path) const {
    const auto& units = plan_.units();
    pool.run(static_cast<std::int64_t>(units.size()), [&](std::int64_t i) { path.unit(unit_of(units[at(i)])); });
    const auto& merges = plan_.merges();
    pool.run(static_cast<std::int64_t>(merges.size()), [&](std::int64_t i) { path.merge(unit_of(merges[at(i)])); });
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  AttentionUnit unit_of(const PlannedUnit& planned) const {
    const Tensor& q = args_.query.values;
    const KvView& kv = args_.kv;
    AttentionUnit unit;
    unit.q = reinterpret_cast<const float*>(row_at(q, planned.first_row, planned.first_head));
    unit.q_token_stride = q.stride(0);
    unit.q_head_stride = q.stride(1);
    unit.tokens = planned.tokens;
    unit.heads = planned.heads;
    unit.position = planned.position;
    unit.key = segment_of(kv, layout_, 0, planned.kv_head);
    unit.value = segment_of(kv, layout_, 1, planned.kv_head);
    unit.pages = reinterpret_cast<const std::uint8_t*>(kv.pages);
    unit.page_bytes = kv.page_bytes;
    unit.page_size = kv.page_size;
    unit.page_table = kv.page_table + std::int64_t{planned.seq} * kv.max_pages;
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
  if (!has_tiles(args)) return plain::attention(pool, args, deterministic);
  run_attention(pool, args, {attention_unit, merge_attention});
}

void avx2::attention(ThreadPool& pool, const AttentionArgs& args, bool deterministic) {
  if (!has_tiles(args)) return plain::attention(pool, args, deterministic);
  run_attention(pool, args, {attention_unit, merge_attention});
}

}  // namespace octavo::cpu
