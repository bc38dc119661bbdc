// Cache: pages of one layer on a device, filled only through kv_write, so that a test need not know how a wing lays
// them out.
#pragma once

#include <span>
#include <vector>

#include "kv/view.h"
#include "ops/backend.h"
#include "tests/conformance/arena.h"

namespace octavo::conformance {

inline constexpr KvElem kElems[] = {KvElem::f32, KvElem::bf16, KvElem::e4m3, KvElem::e5m2, KvElem::int8};

class Cache {
 public:
  Cache(Arena& arena, Backend& backend, const KvFormat& format, int page_size, int num_pages,
        std::span<const float> key_scales, std::span<const float> value_scales);

  // Rows of the batch's sequences; entries beyond a sequence's pages are 0.
  void set_table(const std::vector<std::vector<std::int32_t>>& pages);

  // Every slot gets the largest finite numbers; the counters start at zero again.
  void poison(DType compute = DType::f32);

  // q [tokens, q_heads, width], k and v float32 as one flat row each; gives the queries for attention.
  Query write(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const std::int32_t> slots);
  Query blank_query(std::int64_t tokens, std::int64_t q_heads, std::int64_t width) const;

  const KvView& view() const { return view_; }
  KvCounters counters() const;
  std::vector<std::byte> page_bytes() const;

 private:
  Arena& arena_;
  Backend& backend_;
  KvView view_;
};

// The attention of one step over that cache. `starts`: query_start, `contexts`: tokens in the cache.
Tensor attend(Arena& arena, Backend& backend, const Cache& cache, const Query& query,
              std::span<const std::int32_t> starts, std::span<const std::int32_t> contexts, const AttentionRule& rule,
              DType result);

}  // namespace octavo::conformance
