#include "tests/conformance/cache.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace octavo::conformance {

Cache::Cache(Arena& arena, Backend& backend, const KvFormat& format, int page_size, int num_pages,
             std::span<const float> key_scales, std::span<const float> value_scales)
    : arena_(arena), backend_(backend) {
  view_.format = format;
  view_.page_size = page_size;
  view_.num_pages = num_pages;
  view_.page_bytes = bytes_per_page(format, page_size);
  const std::vector<std::byte> zeros(static_cast<std::size_t>(view_.page_bytes * num_pages));
  view_.pages = arena.put(std::span<const std::byte>(zeros));
  view_.scales[0] = arena.put(key_scales);
  view_.scales[1] = arena.put(value_scales);
  const KvCounters fresh;
  view_.counters = arena.put(std::span(&fresh, 1));
}

void Cache::set_table(const std::vector<std::vector<std::int32_t>>& pages) {
  std::size_t longest = 1;
  for (const auto& row : pages) longest = std::max(longest, row.size());
  std::vector<std::int32_t> table;
  for (const auto& row : pages) {
    table.insert(table.end(), row.begin(), row.end());
    table.insert(table.end(), longest - row.size(), 0);
  }
  view_.page_table = arena_.put(std::span<const std::int32_t>(table));
  view_.max_pages = static_cast<std::int32_t>(longest);
}

Query Cache::blank_query(std::int64_t tokens, std::int64_t q_heads, std::int64_t width) const {
  const QuerySpec spec = backend_.ops().query_spec(view_.format);
  return {arena_.blank({tokens, q_heads, width * spec.width_factor}, spec.dtype),
          spec.has_scale ? arena_.blank({tokens, q_heads}) : Tensor()};
}

Query Cache::write(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const std::int32_t> slots) {
  const auto tokens = std::ssize(slots);
  const Query query = blank_query(q.size(0), q.size(1), q.size(2));
  const std::vector<std::int32_t> positions(slots.size(), 0);
  backend_.ops().kv_write({.q = q,
                           .k = k,
                           .v = v,
                           .rope = {},
                           .positions = arena_.ints(positions, {tokens}),
                           .slots = arena_.ints(slots, {tokens}),
                           .kv = view_,
                           .query = query});
  return query;
}

void Cache::poison(DType compute) {
  const std::int64_t tokens = std::int64_t{view_.num_pages} * view_.page_size;
  const std::int64_t heads = view_.format.segments[0].heads;
  const std::int64_t k_width = view_.format.segments[0].width;
  const std::int64_t v_width = view_.format.segments[1].width;
  std::vector<std::int32_t> slots;
  for (std::int64_t i = 0; i < tokens; ++i) slots.push_back(static_cast<std::int32_t>(i));
  const std::vector<float> keys(static_cast<std::size_t>(tokens * heads * k_width), 3e38f);
  const std::vector<float> values(static_cast<std::size_t>(tokens * heads * v_width), -3e38f);
  const Tensor k = arena_.floats(keys, {tokens, heads, k_width}, compute);
  write(k, k, arena_.floats(values, {tokens, heads, v_width}, compute), slots);
  const KvCounters fresh;
  backend_.device().upload(reinterpret_cast<std::byte*>(view_.counters), std::as_bytes(std::span(&fresh, 1)));
}

KvCounters Cache::counters() const {
  const auto bytes = arena_.read_bytes(reinterpret_cast<const std::byte*>(view_.counters), sizeof(KvCounters));
  return *reinterpret_cast<const KvCounters*>(bytes.data());
}

std::vector<std::byte> Cache::page_bytes() const {
  return arena_.read_bytes(view_.pages, static_cast<std::size_t>(view_.page_bytes * view_.num_pages));
}

Tensor attend(Arena& arena, Backend& backend, const Cache& cache, const Query& query,
              std::span<const std::int32_t> starts, std::span<const std::int32_t> contexts, const AttentionRule& rule,
              DType result) {
  const KvFormat& format = cache.view().format;
  const auto num_seqs = static_cast<std::int32_t>(contexts.size());
  BatchView batch;
  batch.num_seqs = num_seqs;
  batch.num_tokens = starts[contexts.size()];
  std::vector<std::int32_t> positions;
  for (std::int32_t s = 0; s < num_seqs; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const std::int32_t length = starts[i + 1] - starts[i];
    if (length == 1 && batch.num_decodes == s) ++batch.num_decodes;
    batch.max_query = std::max(batch.max_query, length);
    batch.max_context = std::max(batch.max_context, contexts[i]);
    for (std::int32_t t = 0; t < length; ++t) positions.push_back(contexts[i] - length + t);
  }
  batch.query_start = arena.ints(starts, {num_seqs + 1});
  batch.context = arena.ints(contexts, {num_seqs});
  batch.positions = arena.ints(positions, {batch.num_tokens});
  const auto q_heads = static_cast<std::int32_t>(query.values.size(1));
  const bool latent = format.segments[0].part == KvPart::latent;
  const Tensor out = arena.blank({batch.num_tokens, q_heads, format.segments[latent ? 0 : 1].width}, result);
  const AttentionShape shape{.format = format,
                             .q_heads = q_heads,
                             .page_size = cache.view().page_size,
                             .window = rule.window,
                             .soft_cap = rule.soft_cap > 0,
                             .sinks = !rule.sinks.empty()};
  auto made = backend.ops().make_plan(shape, num_seqs, batch.num_tokens);
  check(made.has_value(), made ? "" : made.error().message());
  const auto plan = *std::move(made);
  backend.ops().plan_attention({.batch = batch, .shape = shape, .plan = *plan});
  backend.ops().attention(
      {.query = query, .kv = cache.view(), .batch = batch, .plan = *plan, .rule = rule, .out = out});
  backend.device().synchronize();
  return out;
}

}  // namespace octavo::conformance
