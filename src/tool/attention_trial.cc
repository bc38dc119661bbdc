#include <algorithm>
#include <cmath>
#include <numeric>

#include "kv/codec.h"
#include "tool/kernel_trial.h"

namespace octavo {

namespace {

constexpr int kPageTokens = 64;
constexpr std::int64_t kSourceTokens = 32768;
constexpr std::int64_t kSequenceShift = 4096;  // between the beginnings of two sequences in the source

// Heads as models with such heads have them.
int kv_heads_of(int width) { return width <= 128 ? 8 : 4; }
int q_heads_of(int width) { return width <= 128 ? 32 : 16; }

KvSegment segment_of(KvPart part, KvElem elem, int width) {
  KvSegment segment{.part = part, .elem = elem, .heads = kv_heads_of(width), .width = width};
  segment.grain = elem == KvElem::int8 ? KvGrain::token_head : is_8bit(elem) ? KvGrain::head : KvGrain::none;
  return segment;
}

// Far from 1, by head, K and V apart; what N(0, 1) needs in e4m3.
std::vector<float> scales_of(KvPart part, int heads) {
  std::vector<float> scales;
  for (int h = 0; h < heads; ++h)
    scales.push_back(part == KvPart::key ? 0.012f + 0.001f * static_cast<float>(h)
                                         : 0.03f - 0.002f * static_cast<float>(h));
  return scales;
}

// What a reader must see of one stored row.
void as_stored(const KvSegment& segment, float scale, std::span<float> row) {
  const auto width = static_cast<int>(row.size());
  if (segment.elem == KvElem::int8) {
    const std::uint16_t code = int8_scale(row_amax(row.data(), width));
    const float inverse = int8_inverse(code);
    for (float& x : row) x = static_cast<float>(int8_from_f32(x, inverse)) * f32_from_bf16(code);
  } else if (is_8bit(segment.elem)) {
    for (float& x : row) x = decode8(segment.elem, encode8(segment.elem, x / scale)) * scale;
  }
}

std::string tokens_name(std::int64_t tokens) {
  return tokens % 1024 == 0 ? std::to_string(tokens / 1024) + "k" : std::to_string(tokens);
}

}  // namespace

struct AttentionTrials::Source {
  int width = 0, kv_heads = 0;
  std::vector<std::uint16_t> keys, values;  // bf16 [kSourceTokens, kv_heads, width]
  TrialMemory memory;
  Tensor device_keys, device_values;

  explicit Source(Device& device) : memory(device) {}

  // Row of a head of one sequence's token, as its cache keeps it.
  std::vector<float> row(bool key, const KvSegment& segment, float scale, std::int64_t seq, std::int64_t token,
                         int head) const {
    const std::int64_t from = (token + seq * kSequenceShift) % kSourceTokens;
    const std::uint16_t* bits = (key ? keys : values).data() + (from * kv_heads + head) * width;
    std::vector<float> numbers(static_cast<std::size_t>(width));
    std::transform(bits, bits + width, numbers.begin(), [](std::uint16_t b) { return f32_from_bf16(b); });
    as_stored(segment, scale, numbers);
    return numbers;
  }
};

namespace {

// The cache of a trial: pages in random order, filled through kv_write.
struct TrialCache {
  KvView view;
  BatchView batch;
  std::vector<float> scales[2];
};

}  // namespace

Result<std::shared_ptr<const AttentionTrials::Source>> AttentionTrials::source_of(int width) {
  if (source_ && source_->width == width) return source_;
  source_.reset();
  auto source = std::make_shared<Source>(backend_.device());
  source->width = width;
  source->kv_heads = kv_heads_of(width);
  TrialNumbers numbers(seed_);
  const std::int64_t count = kSourceTokens * source->kv_heads * width;
  source->keys = numbers.normals(count);
  source->values = numbers.normals(count);
  const auto put = [&](const std::vector<std::uint16_t>& from) {
    return source->memory.put(std::span(from), DType::bf16, {kSourceTokens, source->kv_heads, width});
  };
  OCTAVO_TRY(source->device_keys, put(source->keys));
  OCTAVO_TRY(source->device_values, put(source->values));
  source_ = source;
  return source_;
}

namespace {

Status put_batch(TrialMemory& memory, const TrialShape& shape, BatchView& batch) {
  std::vector<std::int32_t> starts, contexts, positions;
  for (std::int32_t s = 0; s <= shape.num_seqs; ++s) starts.push_back(s * shape.length);
  contexts.assign(static_cast<std::size_t>(shape.num_seqs), shape.context);
  for (std::int32_t s = 0; s < shape.num_seqs; ++s)
    for (std::int32_t t = 0; t < shape.length; ++t) positions.push_back(shape.context - shape.length + t);
  batch.num_seqs = shape.num_seqs;
  batch.num_decodes = shape.decodes() ? shape.num_seqs : 0;
  batch.num_tokens = static_cast<std::int32_t>(shape.tokens());
  batch.max_query = shape.length;
  batch.max_context = shape.context;
  const auto put = [&](const std::vector<std::int32_t>& from) {
    return memory.put(std::span<const std::int32_t>(from), DType::i32, {std::ssize(from)});
  };
  OCTAVO_TRY(batch.query_start, put(starts));
  OCTAVO_TRY(batch.context, put(contexts));
  OCTAVO_TRY(batch.positions, put(positions));
  return {};
}

// An empty cache with its table: pages lie anywhere in the pool.
Result<std::vector<std::int32_t>> put_pages(TrialMemory& memory, Device& device, TrialCache& cache,
                                            std::uint64_t seed) {
  KvView& view = cache.view;
  view.page_size = kPageTokens;
  view.page_bytes = bytes_per_page(view.format, kPageTokens);
  view.max_pages = (cache.batch.max_context + kPageTokens - 1) / kPageTokens;
  view.num_pages = 1 + cache.batch.num_seqs * view.max_pages;
  std::vector<std::int32_t> table(static_cast<std::size_t>(view.num_pages - 1));
  std::iota(table.begin(), table.end(), 1);
  std::shuffle(table.begin(), table.end(), std::mt19937_64(seed));
  OCTAVO_TRY(const Tensor on_device, memory.put(std::span<const std::int32_t>(table), DType::i32, {std::ssize(table)}));
  view.page_table = on_device.data<std::int32_t>();
  const std::int64_t bytes = view.page_bytes * view.num_pages;
  OCTAVO_TRY(view.pages, memory.reserve(static_cast<std::size_t>(bytes)));
  device.fill_zero(view.pages, static_cast<std::size_t>(bytes));
  for (const int segment : {0, 1}) {
    const KvSegment& s = view.format.segments[segment];
    cache.scales[segment] = scales_of(s.part, s.heads);
    OCTAVO_TRY(const Tensor scales,
               memory.put(std::span<const float>(cache.scales[segment]), DType::f32, {std::int64_t{s.heads}}));
    view.scales[segment] = scales.data<float>();
  }
  const KvCounters fresh;
  OCTAVO_TRY(const Tensor counters, memory.put(std::as_bytes(std::span(&fresh, 1)), DType::u8, {sizeof fresh}));
  view.counters = reinterpret_cast<KvCounters*>(counters.raw());
  return table;
}

// Where a writer puts queries, in the form that this wing's attention reads.
Result<Query> blank_query(Backend& backend, TrialMemory& memory, const KvFormat& format, std::int64_t tokens,
                          std::int64_t heads) {
  const QuerySpec spec = backend.ops().query_spec(format);
  const std::int64_t width = format.segments[0].width;
  Query query;
  OCTAVO_TRY(query.values, memory.blank(spec.dtype, {tokens, heads, width * spec.width_factor}));
  if (spec.has_scale) {
    OCTAVO_TRY(query.scale, memory.blank(DType::f32, {tokens, heads}));
  }
  return query;
}

// Writes all of the sequences' tokens: of each a stretch of the source, at its end from the beginning again.
template <class Source>
Status fill(Backend& backend, TrialMemory& memory, const TrialCache& cache, const Source& source,
            const std::vector<std::int32_t>& table) {
  OCTAVO_TRY(const Query scratch, blank_query(backend, memory, cache.view.format, kSourceTokens, source.kv_heads));
  const std::int64_t context = cache.batch.max_context;
  for (std::int64_t seq = 0; seq < cache.batch.num_seqs; ++seq)
    for (std::int64_t token = 0; token < context;) {
      const std::int64_t from = (token + seq * kSequenceShift) % kSourceTokens;
      const std::int64_t count = std::min(context - token, kSourceTokens - from);
      std::vector<std::int32_t> slots;
      for (std::int64_t t = token; t < token + count; ++t) {
        const auto page = static_cast<std::size_t>(seq * cache.view.max_pages + t / kPageTokens);
        slots.push_back(table[page] * kPageTokens + static_cast<std::int32_t>(t % kPageTokens));
      }
      OCTAVO_TRY(const Tensor on_device, memory.put(std::span<const std::int32_t>(slots), DType::i32, {count}));
      const Tensor keys = source.device_keys.rows(from, count), values = source.device_values.rows(from, count);
      const Query query{scratch.values.rows(0, count), scratch.scale.empty() ? Tensor() : scratch.scale.rows(0, count)};
      backend.ops().kv_write({.q = keys,
                              .k = keys,
                              .v = values,
                              .rope = {},
                              .positions = on_device,
                              .slots = on_device,
                              .kv = cache.view,
                              .query = query});
      token += count;
    }
  return {};
}

// Softmax over tokens [0, visible) in two passes.
std::vector<double> attended(const std::vector<std::vector<float>>& keys, const std::vector<std::vector<float>>& values,
                             std::int64_t visible, const std::uint16_t* query, double scale) {
  const std::size_t width = keys.front().size();
  std::vector<double> q(width), scores(static_cast<std::size_t>(visible)), out(width, 0.0);
  for (std::size_t d = 0; d < width; ++d) q[d] = f32_from_bf16(query[d]);
  for (std::size_t t = 0; t < scores.size(); ++t)
    scores[t] = scale * std::inner_product(q.begin(), q.end(), keys[t].begin(), 0.0);
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const double weight = std::exp(scores[t] - most);
    sum += weight;
    for (std::size_t d = 0; d < width; ++d) out[d] += weight * values[t][d];
  }
  for (double& x : out) x /= sum;
  return out;
}

// The rows of a sequence that are held to the reference: of a decode its one, of a prompt its ends and page edges.
std::vector<std::int32_t> sampled_rows(std::int32_t length) {
  if (length == 1) return {0};
  std::vector<std::int32_t> rows = {0, 1, length / 2, length - 1};
  for (const std::int32_t row : {kPageTokens - 1, kPageTokens})
    if (row < length) rows.push_back(row);
  return rows;
}

// Queries repeat after so many rows: a prime, so that no tile sees them in the same places.
constexpr std::int64_t kQueryRows = 4093;

// queries: bf16 [at most kQueryRows, q_heads, width], in the form that this wing's attention reads.
Result<Query> put_queries(Backend& backend, TrialMemory& memory, const KvView& view,
                          const std::vector<std::uint16_t>& queries, const Tensor& positions, std::int64_t q_heads) {
  const std::int64_t tokens = positions.elements();
  const std::int64_t width = view.format.segments[0].width;
  OCTAVO_TRY(const Tensor q, memory.blank(DType::bf16, {tokens, q_heads, width}));
  for (std::int64_t at = 0; at < tokens; at += kQueryRows) {
    const Tensor rows = q.rows(at, std::min(tokens - at, kQueryRows));
    backend.device().upload(rows.raw(),
                            std::as_bytes(std::span(queries)).first(static_cast<std::size_t>(rows.bytes())));
  }
  OCTAVO_TRY(const Query query, blank_query(backend, memory, view.format, tokens, q_heads));
  backend.ops().kv_write(
      {.q = q, .k = {}, .v = {}, .rope = {}, .positions = positions, .slots = {}, .kv = view, .query = query});
  return query;
}

// Of the first sequence and the last, over the first and the last KV head, the first and last query head of each.
template <class Source>
double error_of(const TrialShape& shape, const Source& source, const TrialCache& cache,
                const std::vector<std::uint16_t>& queries, const std::vector<std::uint16_t>& got, double scale) {
  const int width = source.width, q_heads = q_heads_of(width), group = q_heads / source.kv_heads;
  const auto* segments = cache.view.format.segments;
  TrialError error;
  for (const int head : {0, source.kv_heads - 1}) {
    const std::int32_t seq = head == 0 ? 0 : shape.num_seqs - 1;
    const auto h = static_cast<std::size_t>(head);
    std::vector<std::vector<float>> keys, values;
    for (std::int32_t t = 0; t < shape.context; ++t) {
      keys.push_back(source.row(true, segments[0], cache.scales[0][h], seq, t, head));
      values.push_back(source.row(false, segments[1], cache.scales[1][h], seq, t, head));
    }
    for (const std::int32_t r : sampled_rows(shape.length))
      for (const int q_head : {head * group, head * group + group - 1}) {
        const std::int64_t token = std::int64_t{seq} * shape.length + r;
        const auto want = attended(keys, values, shape.context - shape.length + r + 1,
                                   queries.data() + (token % kQueryRows * q_heads + q_head) * width, scale);
        const std::uint16_t* row = got.data() + (token * q_heads + q_head) * width;
        for (int d = 0; d < width; ++d) error.add(f32_from_bf16(row[d]), want[static_cast<std::size_t>(d)]);
      }
  }
  return error.relative();
}

}  // namespace

std::string TrialShape::name() const {
  if (decodes()) return std::to_string(num_seqs) + " x " + tokens_name(context);
  return (length < context ? tokens_name(length) + " of " : "") + tokens_name(context);
}

std::vector<TrialShape> usual_shapes(KernelPhase phase) {
  if (phase == KernelPhase::decode) return {{1, 1, 1024}, {1, 1, 131072}, {8, 1, 8192}, {8, 1, 32768}};
  return {{1, 8192, 8192}, {1, 32768, 32768}, {1, 2048, 131072}};
}

Result<KernelTrial> AttentionTrials::run(const KernelRow& row, const TrialShape& shape) {
  OCTAVO_TRY(const auto shared_source, source_of(row.head_dim));
  const Source& source = *shared_source;
  const int width = row.head_dim, q_heads = q_heads_of(width);
  Device& device = backend_.device();
  TrialMemory memory(device);
  TrialCache cache;
  cache.view.format.num_segments = 2;
  cache.view.format.segments[0] = segment_of(KvPart::key, *row.key, width);
  cache.view.format.segments[1] = segment_of(KvPart::value, *row.value, width);
  OCTAVO_TRY(backend_.supports({.format = cache.view.format, .q_heads = q_heads, .page_size = kPageTokens}));
  OCTAVO_TRY(put_batch(memory, shape, cache.batch));
  OCTAVO_TRY(const auto table, put_pages(memory, device, cache, seed_));
  OCTAVO_TRY(fill(backend_, memory, cache, source, table));
  const std::int64_t row_numbers = std::int64_t{q_heads} * width;
  const auto queries = TrialNumbers(seed_ + 1).normals(std::min(shape.tokens(), kQueryRows) * row_numbers);
  OCTAVO_TRY(const Query query, put_queries(backend_, memory, cache.view, queries, cache.batch.positions, q_heads));

  AttentionRule rule;
  rule.scale = 1.0f / std::sqrt(static_cast<float>(width));
  OCTAVO_TRY(const Tensor out, memory.blank(DType::bf16, {shape.tokens(), q_heads, width}));
  const AttentionWork work{.query = query, .kv = cache.view, .batch = cache.batch, .rule = rule, .out = out};
  KernelTrial trial{.row = row.name, .shape = shape.name()};
  OCTAVO_TRY(trial.ms, backend_.run_row(row.name, {.attention = &work}));
  const double context = shape.context, length = shape.length;
  const double pairs = shape.num_seqs * (length * context - length * (length - 1) / 2);
  trial.operations = 4.0 * width * q_heads * pairs;
  trial.bytes = shape.num_seqs * context * static_cast<double>(bytes_per_token(cache.view.format)) +
                4.0 * static_cast<double>(shape.tokens() * row_numbers);
  const std::vector<std::uint16_t> got = downloaded_bf16(device, out);
  trial.error = all_finite(got) ? error_of(shape, source, cache, queries, got, rule.scale) : std::nan("");
  return trial;
}

}  // namespace octavo
