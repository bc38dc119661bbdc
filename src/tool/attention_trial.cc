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

// Heads as models with such heads have them; over latents those of one of four ranks.
struct TrialHeads {
  int head_dim = 0, rope_dim = 0;  // of the row

  explicit TrialHeads(const KernelRow& row) : head_dim(row.head_dim), rope_dim(row.rope_dim) {}
  bool operator==(const TrialHeads&) const = default;
  bool latent() const { return rope_dim > 0; }
  int kv_heads() const { return latent() ? 1 : head_dim <= 128 ? 8 : 4; }
  int q_heads() const { return latent() || head_dim > 128 ? 16 : 32; }
  // Of what the cache keeps, and of queries.
  int first_width() const { return head_dim; }
  int second_width() const { return latent() ? rope_dim : head_dim; }
  int query_width() const { return head_dim + rope_dim; }
};

KvSegment segment_of(KvPart part, KvElem elem, int heads, int width) {
  KvSegment segment{.part = part, .elem = elem, .heads = heads, .width = width};
  segment.grain = elem == KvElem::int8 ? KvGrain::token_head : is_8bit(elem) ? KvGrain::head : KvGrain::none;
  return segment;
}

KvFormat format_of(const KernelRow& row) {
  const TrialHeads heads(row);
  KvFormat format;
  format.num_segments = 2;
  format.segments[0] =
      segment_of(heads.latent() ? KvPart::latent : KvPart::key, *row.key, heads.kv_heads(), heads.first_width());
  format.segments[1] = heads.latent() ? segment_of(KvPart::rope, KvElem::bf16, 1, heads.second_width())
                                      : segment_of(KvPart::value, *row.value, heads.kv_heads(), heads.second_width());
  return format;
}

// Far from 1, by head, K and V apart; what N(0, 1) needs in e4m3.
std::vector<float> scales_of(KvPart part, int heads) {
  std::vector<float> scales;
  for (int h = 0; h < heads; ++h)
    scales.push_back(part == KvPart::key || part == KvPart::latent ? 0.012f + 0.001f * static_cast<float>(h)
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
  TrialHeads heads;
  std::vector<std::uint16_t> first, second;  // K and V, or latents and rope keys: bf16 [kSourceTokens, kv_heads, width]
  TrialMemory memory;
  Tensor device_first, device_second;

  Source(Device& device, const TrialHeads& of) : heads(of), memory(device) {}

  // Row of a head of one sequence's token, as its cache keeps it.
  std::vector<float> row(int part, const KvSegment& segment, float scale, std::int64_t seq, std::int64_t token,
                         int head) const {
    const std::int64_t from = (token + seq * kSequenceShift) % kSourceTokens;
    const std::uint16_t* bits = (part == 0 ? first : second).data() + (from * segment.heads + head) * segment.width;
    std::vector<float> numbers(static_cast<std::size_t>(segment.width));
    std::transform(bits, bits + segment.width, numbers.begin(), [](std::uint16_t b) { return f32_from_bf16(b); });
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

Result<std::shared_ptr<const AttentionTrials::Source>> AttentionTrials::source_of(const KernelRow& row) {
  const TrialHeads heads(row);
  if (source_ && source_->heads == heads) return source_;
  source_.reset();
  auto source = std::make_shared<Source>(backend_.device(), heads);
  TrialNumbers numbers(seed_);
  source->first = numbers.normals(kSourceTokens * heads.kv_heads() * heads.first_width());
  source->second = numbers.normals(kSourceTokens * heads.kv_heads() * heads.second_width());
  const auto put = [&](const std::vector<std::uint16_t>& from, int width) {
    return source->memory.put(std::span(from), DType::bf16, {kSourceTokens, heads.kv_heads(), width});
  };
  OCTAVO_TRY(source->device_first, put(source->first, heads.first_width()));
  OCTAVO_TRY(source->device_second, put(source->second, heads.second_width()));
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
                          std::int64_t heads, std::int64_t width) {
  const QuerySpec spec = backend.ops().query_spec(format);
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
  // Queries go nowhere: of K and V those rows are K, a latent cache is written without any.
  const TrialHeads& heads = source.heads;
  const std::int64_t scratch_rows = heads.latent() ? 1 : kSourceTokens;
  OCTAVO_TRY(const Query scratch,
             blank_query(backend, memory, cache.view.format, scratch_rows, heads.kv_heads(), heads.query_width()));
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
      const Tensor first = source.device_first.rows(from, count), second = source.device_second.rows(from, count);
      const std::int64_t queries = heads.latent() ? 0 : count;
      const Query query{scratch.values.rows(0, queries),
                        scratch.scale.empty() ? Tensor() : scratch.scale.rows(0, queries)};
      backend.ops().kv_write({.q = heads.latent() ? scratch.values.rows(0, 0) : first,
                              .k = first,
                              .v = second,
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
  const std::size_t width = values.front().size();
  std::vector<double> q(keys.front().size()), scores(static_cast<std::size_t>(visible)), out(width, 0.0);
  for (std::size_t d = 0; d < q.size(); ++d) q[d] = f32_from_bf16(query[d]);
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
                          const std::vector<std::uint16_t>& queries, const Tensor& positions, const TrialHeads& heads) {
  const std::int64_t tokens = positions.elements();
  OCTAVO_TRY(const Tensor q, memory.blank(DType::bf16, {tokens, heads.q_heads(), heads.query_width()}));
  for (std::int64_t at = 0; at < tokens; at += kQueryRows) {
    const Tensor rows = q.rows(at, std::min(tokens - at, kQueryRows));
    backend.device().upload(rows.raw(),
                            std::as_bytes(std::span(queries)).first(static_cast<std::size_t>(rows.bytes())));
  }
  OCTAVO_TRY(const Query query,
             blank_query(backend, memory, view.format, tokens, heads.q_heads(), heads.query_width()));
  backend.ops().kv_write(
      {.q = q, .k = {}, .v = {}, .rope = {}, .positions = positions, .slots = {}, .kv = view, .query = query});
  return query;
}

// Of the first sequence and the last, over the first and the last KV head, the first and last query head of each.
template <class Source>
double error_of(const TrialShape& shape, const Source& source, const TrialCache& cache,
                const std::vector<std::uint16_t>& queries, const std::vector<std::uint16_t>& got, double scale) {
  const TrialHeads& heads = source.heads;
  const int q_heads = heads.q_heads(), group = q_heads / heads.kv_heads();
  const auto* segments = cache.view.format.segments;
  TrialError error;
  for (const bool last : {false, true}) {
    if (last && heads.kv_heads() == 1 && shape.num_seqs == 1) break;  // the same once more
    const int head = last ? heads.kv_heads() - 1 : 0;
    const std::int32_t seq = last ? shape.num_seqs - 1 : 0;
    const auto h = static_cast<std::size_t>(head);
    std::vector<std::vector<float>> keys, values;
    for (std::int32_t t = 0; t < shape.context; ++t) {
      std::vector<float> first = source.row(0, segments[0], cache.scales[0][h], seq, t, head);
      std::vector<float> second = source.row(1, segments[1], cache.scales[1][h], seq, t, head);
      if (heads.latent()) {
        keys.push_back(first);
        keys.back().insert(keys.back().end(), second.begin(), second.end());
        values.push_back(std::move(first));
      } else {
        keys.push_back(std::move(first));
        values.push_back(std::move(second));
      }
    }
    for (const std::int32_t r : sampled_rows(shape.length))
      for (const int q_head : {head * group, head * group + group - 1}) {
        const std::int64_t token = std::int64_t{seq} * shape.length + r;
        const auto want =
            attended(keys, values, shape.context - shape.length + r + 1,
                     queries.data() + (token % kQueryRows * q_heads + q_head) * heads.query_width(), scale);
        const std::uint16_t* row = got.data() + (token * q_heads + q_head) * heads.head_dim;
        for (int d = 0; d < heads.head_dim; ++d) error.add(f32_from_bf16(row[d]), want[static_cast<std::size_t>(d)]);
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
  OCTAVO_TRY(const auto shared_source, source_of(row));
  const Source& source = *shared_source;
  const TrialHeads& heads = source.heads;
  const int q_heads = heads.q_heads();
  Device& device = backend_.device();
  TrialMemory memory(device);
  TrialCache cache;
  cache.view.format = format_of(row);
  OCTAVO_TRY(backend_.supports({.format = cache.view.format, .q_heads = q_heads, .page_size = kPageTokens}));
  OCTAVO_TRY(put_batch(memory, shape, cache.batch));
  OCTAVO_TRY(const auto table, put_pages(memory, device, cache, seed_));
  OCTAVO_TRY(fill(backend_, memory, cache, source, table));
  const std::int64_t row_numbers = std::int64_t{q_heads} * heads.query_width();
  const auto queries = TrialNumbers(seed_ + 1).normals(std::min(shape.tokens(), kQueryRows) * row_numbers);
  OCTAVO_TRY(const Query query, put_queries(backend_, memory, cache.view, queries, cache.batch.positions, heads));

  AttentionRule rule;
  rule.scale = 1.0f / std::sqrt(static_cast<float>(heads.query_width()));
  OCTAVO_TRY(const Tensor out, memory.blank(DType::bf16, {shape.tokens(), q_heads, heads.head_dim}));
  const AttentionWork work{.query = query, .kv = cache.view, .batch = cache.batch, .rule = rule, .out = out};
  KernelTrial trial{.row = row.name, .shape = shape.name()};
  OCTAVO_TRY(trial.ms, backend_.run_row(row.name, {.attention = &work}));
  const double context = shape.context, length = shape.length;
  const double pairs = shape.num_seqs * (length * context - length * (length - 1) / 2);
  trial.operations = 2.0 * (heads.query_width() + heads.head_dim) * q_heads * pairs;
  trial.bytes = shape.num_seqs * context * static_cast<double>(bytes_per_token(cache.view.format)) +
                2.0 * static_cast<double>(shape.tokens()) * (row_numbers + q_heads * heads.head_dim);
  const std::vector<std::uint16_t> got = downloaded_bf16(device, out);
  trial.error = all_finite(got) ? error_of(shape, source, cache, queries, got, rule.scale) : std::nan("");
  return trial;
}

}  // namespace octavo
