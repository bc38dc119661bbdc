// kv_write: norm, rope and rotation in float32 without rounding in between, then the cache's own rounding, once.
#include <algorithm>
#include <vector>

#include "cpu/cache_rows.h"
#include "cpu/norm.h"
#include "cpu/plain.h"
#include "cpu/rotation.h"
#include "cpu/rows.h"
#include "kv/codec.h"

namespace octavo::cpu::plain {

namespace {

// The work on one token; its rows are prepared in `row_`, one after the other.
class TokenWriter {
 public:
  TokenWriter(const KvWriteArgs& args, const PageLayout& layout, std::int64_t token)
      : args_(args),
        layout_(layout),
        token_(token),
        rotated_(args.kv.format.segments[0].transform == KvTransform::hadamard) {
    if (!args.rope.inv_freq.empty()) angles_ = angles_at(args.rope, ints(args.positions)[token]);
  }

  void write_query() {
    for (std::int64_t head = 0; head < args_.q.size(1); ++head) {
      prepare_key(args_.q, head, args_.q_norm);
      store_row(row_.data(), args_.q.size(2), row_at(args_.query.values, token_, head), DType::f32);
    }
  }

  // Slots of page 0 take padding: it is written there, but not counted.
  void write_cache(std::int32_t slot) {
    RowCounts key;
    RowCounts value;
    for (int head = 0; head < static_cast<int>(args_.k.size(1)); ++head) {
      prepare_key(args_.k, head, args_.k_norm);
      write_cache_row(args_.kv, layout_, 0, head, slot, row_.data(), key);
      load(args_.v, head, args_.v_norm);
      write_cache_row(args_.kv, layout_, 1, head, slot, row_.data(), value);
    }
    if (args_.kv.counters != nullptr && slot >= args_.kv.page_size) add_counts(*args_.kv.counters, key, value);
  }

 private:
  void load(const Tensor& x, std::int64_t head, const NormRule* norm) {
    row_.resize(static_cast<std::size_t>(x.size(2)));
    load_row(row_at(x, token_, head), x.dtype(), x.size(2), row_.data());
    if (norm != nullptr) norm_row(*norm, DType::f32, row_.data(), x.size(2));
  }

  void prepare_key(const Tensor& x, std::int64_t head, const NormRule* norm) {
    load(x, head, norm);
    if (!args_.rope.inv_freq.empty()) rotate_row(angles_, args_.rope.interleaved, row_.data(), x.size(2));
    if (rotated_) hadamard(row_.data(), static_cast<int>(x.size(2)));
  }

  const KvWriteArgs& args_;
  const PageLayout& layout_;
  const std::int64_t token_;
  const bool rotated_;
  Angles angles_;
  std::vector<float> row_;
};

}  // namespace

void kv_write(ThreadPool& pool, const KvWriteArgs& args) {
  const PageLayout layout = page_layout(args.kv.format, args.kv.page_size);
  check_kv_write(args, layout);
  const std::int32_t* slots = args.k.empty() ? nullptr : ints(args.slots);
  pool.run(args.k.empty() ? args.q.size(0) : args.k.size(0), [&](std::int64_t token) {
    TokenWriter writer(args, layout, token);
    if (token < args.q.size(0)) writer.write_query();
    if (slots == nullptr) return;
    check(slots[token] >= 0 && slots[token] / args.kv.page_size < args.kv.num_pages, "a slot beyond the cache");
    writer.write_cache(slots[token]);
  });
}

}  // namespace octavo::cpu::plain
