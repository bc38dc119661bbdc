#include "tests/conformance/attention_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>

#include "kv/codec.h"
#include "tests/conformance/kv_reference.h"
#include "tests/conformance/numbers.h"

namespace octavo::conformance {

namespace {

// Over an 8-bit cache, in products of 8 bits. A decode's queries and probabilities are two numbers each: nearly as near
// as bfloat16. A chunk's probabilities are one: each is wrong by a sixteenth at most and by 1 in 40 in the mean, of
// rows of few keys the largest number by more than of long ones.
constexpr double kDecodeBound = 4e-2;
constexpr double kLargestOfRow = 0.17;
constexpr double kOfAll = 0.02;

// One head's row as attention must see it, in the basis of the queries.
std::vector<double> seen_row(const KvSegment& segment, float scale, std::vector<float> row) {
  const bool turned = segment.transform == KvTransform::hadamard;
  if (turned) hadamard(row.data(), segment.width);
  const ReferenceRow reference = cached(segment, scale, row);
  return turned ? rotated(reference.values) : reference.values;
}

std::vector<double> attention_of(const Case& c, const Numbers& n, const float* q, int q_head, std::int32_t position,
                                 const std::vector<std::vector<double>>& keys,
                                 const std::vector<std::vector<double>>& values) {
  const auto heads = static_cast<std::size_t>(c.kv_heads);
  const auto head = static_cast<std::size_t>(q_head / c.group);
  const std::int32_t first = c.window > 0 ? std::max(0, position - c.window + 1) : 0;
  std::vector<double> scores;
  for (std::int32_t j = first; j <= position; ++j) {
    const std::vector<double>& key = keys[static_cast<std::size_t>(j) * heads + head];
    const double score = n.scale * std::inner_product(key.begin(), key.end(), q, 0.0);
    scores.push_back(c.soft_cap > 0 ? c.soft_cap * std::tanh(score / c.soft_cap) : score);
  }
  double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  if (c.sinks) {
    const double sink = n.sinks[static_cast<std::size_t>(q_head)];
    max = std::max(max, sink);
    sum = std::exp(sink - max);
  }
  std::vector<double> result(static_cast<std::size_t>(c.value_width), 0.0);
  for (std::int32_t j = first; j <= position; ++j) {
    const double p = std::exp(scores[static_cast<std::size_t>(j - first)] - max);
    sum += p;
    const std::vector<double>& value = values[static_cast<std::size_t>(j) * heads + head];
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += p * value[i];
  }
  for (double& x : result) x /= sum;
  return result;
}

// Pages in a shuffled order, every second one left out. Pages that no query can see any more point to page 0.
std::vector<std::vector<std::int32_t>> make_tables(const Case& c, int& num_pages) {
  std::vector<std::int32_t> free;
  for (const Sequence& s : c.sequences)
    for (int i = 0; i < (s.context + c.page_size - 1) / c.page_size; ++i)
      free.push_back(static_cast<std::int32_t>(free.size() * 2 + 1));
  num_pages = static_cast<int>(free.size()) * 2 + 1;
  Random random(99);
  for (std::size_t i = free.size(); i > 1; --i)
    std::swap(free[i - 1], free[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(i)))]);
  std::vector<std::vector<std::int32_t>> tables;
  for (const Sequence& s : c.sequences) {
    const std::int32_t first_seen = c.window > 0 ? std::max(0, s.context - s.length - c.window + 1) : 0;
    std::vector<std::int32_t>& table = tables.emplace_back();
    for (int i = 0; i < (s.context + c.page_size - 1) / c.page_size; ++i) {
      table.push_back((i + 1) * c.page_size <= first_seen ? 0 : free.back());
      free.pop_back();
    }
  }
  return tables;
}

// Tokens [begin, end) of every sequence given to kv_write in one call.
struct Tokens {
  std::vector<float> q, k, v;
  std::vector<std::int32_t> slots;
};

void append_token(const Case& c, const Numbers& n, const std::vector<std::int32_t>& table, std::size_t s,
                  std::int32_t position, Tokens& tokens) {
  const std::int32_t page = table[static_cast<std::size_t>(position / c.page_size)];
  if (page == 0) return;  // out of every window
  const Sequence& sequence = c.sequences[s];
  const std::int32_t row = std::max(0, position - (sequence.context - sequence.length));
  const int k = c.kv_heads * c.width;
  const int v = c.kv_heads * c.value_width;
  const auto append = [](std::vector<float>& to, const std::vector<float>& from, int at, int count) {
    to.insert(to.end(), from.begin() + at, from.begin() + at + count);
  };
  append(tokens.q, n.queries[s], row * k * c.group, k * c.group);
  append(tokens.k, n.keys[s], position * k, k);
  append(tokens.v, n.values[s], position * v, v);
  tokens.slots.push_back(page * c.page_size + position % c.page_size);
}

Query write(const Case& c, Arena& arena, Cache& cache, const Tokens& tokens) {
  const auto count = static_cast<std::int64_t>(tokens.slots.size());
  return cache.write(arena.floats(tokens.q, {count, c.kv_heads * c.group, c.width}, c.compute),
                     arena.floats(tokens.k, {count, c.kv_heads, c.width}, c.compute),
                     arena.floats(tokens.v, {count, c.kv_heads, c.value_width}, c.compute), tokens.slots);
}

// A row of queries as products in 8 bits take it.
void round_to_8_bits(KvElem key, std::span<float> row) {
  const float amax = row_amax(row.data(), static_cast<int>(row.size()));
  if (amax <= 0) return;
  const float factor = key == KvElem::int8 ? 127.0f / amax : std::exp2(7.0f - std::floor(std::log2(amax)));
  for (float& x : row) {
    const float scaled = x * factor;
    x = (key == KvElem::int8 ? std::nearbyint(scaled) : decode8(KvElem::e4m3, encode8(KvElem::e4m3, scaled))) / factor;
  }
}

}  // namespace

std::string describe(const Case& c) {
  return std::string(name_of(c.key)) + ":" + std::string(name_of(c.value)) + (c.rotation ? " rotated" : "") +
         " width " + std::to_string(c.width) + "/" + std::to_string(c.value_width) + " heads " +
         std::to_string(c.kv_heads) + "x" + std::to_string(c.group) + " pages of " + std::to_string(c.page_size) +
         " window " + std::to_string(c.window) + " cap " + std::to_string(c.soft_cap) + (c.sinks ? " sinks" : "") +
         (c.compute == DType::bf16 ? " bf16" : " f32");
}

KvGrain grain_of(KvElem elem, bool per_head) {
  if (elem == KvElem::int8) return KvGrain::token_head;
  return !is_8bit(elem) ? KvGrain::none : per_head ? KvGrain::head : KvGrain::tensor;
}

Numbers make_numbers(const Case& c, std::uint64_t seed) {
  Random random(seed);
  Numbers n;
  const KvTransform transform = c.rotation ? KvTransform::hadamard : KvTransform::none;
  n.format.num_segments = 2;
  n.format.segments[0] = {KvPart::key, c.key, grain_of(c.key, c.per_head), transform, c.kv_heads, c.width};
  n.format.segments[1] = {KvPart::value,     c.value,    grain_of(c.value, c.per_head),
                          KvTransform::none, c.kv_heads, c.value_width};
  for (int h = 0; h < c.kv_heads; ++h) {
    n.key_scales.push_back(0.013f * static_cast<float>(c.per_head ? 1 + 2 * h : 3));
    n.value_scales.push_back(7.0f / static_cast<float>(c.per_head ? 1 + h : 2));
  }
  const auto row = [&](int width, float deviation) { return random.normals(width, deviation); };
  for (const Sequence& s : c.sequences) {
    std::vector<float>& keys = n.keys.emplace_back();
    std::vector<float>& values = n.values.emplace_back();
    for (int i = 0; i < s.context * c.kv_heads; ++i) {
      const auto head = static_cast<std::size_t>(i % c.kv_heads);
      const std::vector<float> key = row(c.width, 60.0f * n.key_scales[head]);
      const std::vector<float> value = row(c.value_width, 60.0f * n.value_scales[head]);
      keys.insert(keys.end(), key.begin(), key.end());
      values.insert(values.end(), value.begin(), value.end());
    }
    keys = rounded(std::move(keys), c.compute);
    values = rounded(std::move(values), c.compute);
    n.queries.push_back(rounded(random.normals(std::int64_t{s.length} * c.kv_heads * c.group * c.width), c.compute));
  }
  if (c.sinks) n.sinks = random.normals(c.kv_heads * c.group, 3.0f);
  n.scale = 1.5f / (60.0f * n.key_scales[0] * std::sqrt(static_cast<float>(c.width)));
  return n;
}

std::vector<std::vector<double>> seen_rows(const KvSegment& segment, const std::vector<float>& scales,
                                           const std::vector<float>& numbers) {
  std::vector<std::vector<double>> rows;
  for (auto at = numbers.begin(); at != numbers.end(); at += segment.width)
    rows.push_back(seen_row(segment, scales[rows.size() % scales.size()], {at, at + segment.width}));
  return rows;
}

std::vector<double> reference(const Case& c, const Numbers& n) {
  std::vector<double> want;
  for (std::size_t s = 0; s < c.sequences.size(); ++s) {
    const auto keys = seen_rows(n.format.segments[0], n.key_scales, n.keys[s]);
    const auto values = seen_rows(n.format.segments[1], n.value_scales, n.values[s]);
    const Sequence& sequence = c.sequences[s];
    for (std::int32_t row = 0; row < sequence.length; ++row)
      for (int head = 0; head < c.kv_heads * c.group; ++head) {
        const float* q = n.queries[s].data() + (row * c.kv_heads * c.group + head) * c.width;
        const std::vector<double> result =
            attention_of(c, n, q, head, sequence.context - sequence.length + row, keys, values);
        want.insert(want.end(), result.begin(), result.end());
      }
  }
  return want;
}

Numbers with_rounded_queries(const Case& c, Numbers n) {
  const bool turned = n.format.segments[0].transform == KvTransform::hadamard;
  const auto width = static_cast<std::size_t>(c.width);
  const bool in_two_numbers = c.key == KvElem::e4m3 && c.width == 64;  // chunks as well as decodes
  bool decodes = true;
  for (std::size_t s = 0; s < c.sequences.size(); ++s) {
    decodes = decodes && c.sequences[s].length == 1;
    for (std::size_t at = 0; at < n.queries[s].size(); at += width) {
      float* row = n.queries[s].data() + at;
      if (turned) hadamard(row, c.width);
      for (std::size_t i = 0; i < width; ++i) row[i] = f32_from_bf16(bf16_from_f32(row[i]));
      if (!decodes && !in_two_numbers) round_to_8_bits(c.key, std::span(row, width));
      if (turned) hadamard(row, c.width);  // its own inverse
    }
  }
  return n;
}

std::vector<float> attention_on(Path& path, const Case& c, const Numbers& n) {
  Arena arena(path.backend->device());
  int num_pages = 0;
  const auto tables = make_tables(c, num_pages);
  Cache cache(arena, *path.backend, n.format, c.page_size, num_pages, n.key_scales, n.value_scales);
  cache.poison(c.compute);
  cache.set_table(tables);
  Tokens history;
  Tokens step;
  std::vector<std::int32_t> starts = {0};
  std::vector<std::int32_t> contexts;
  for (std::size_t s = 0; s < c.sequences.size(); ++s) {
    const Sequence& sequence = c.sequences[s];
    for (std::int32_t position = 0; position < sequence.context; ++position)
      append_token(c, n, tables[s], s, position, position < sequence.context - sequence.length ? history : step);
    starts.push_back(starts.back() + sequence.length);
    contexts.push_back(sequence.context);
  }
  if (!history.slots.empty()) write(c, arena, cache, history);
  const Query query = write(c, arena, cache, step);
  AttentionRule rule{.scale = n.scale, .window = c.window, .soft_cap = c.soft_cap, .sinks = {}};
  if (c.sinks) rule.sinks = arena.floats(n.sinks, {c.kv_heads * c.group});
  return arena.read(attend(arena, *path.backend, cache, query, starts, contexts, rule, c.compute));
}

namespace {

// Whether this path's chunks of the case go through products in 8 bits: then its table has such a row, and the rule is
// one that it knows.
bool rounds_chunks(const Path& path, const Case& c) {
  const bool hopper = path.backend->device().describe().find("compute capability 9.0") != std::string::npos;
  if (!hopper || path.deterministic || c.soft_cap > 0) return false;
  const auto rows = path.backend->inventory().rows;
  return std::any_of(rows.begin(), rows.end(), [&](const KernelRow& row) {
    return row.phase == KernelPhase::prefill && row.products_in_8_bits && row.name.starts_with("sm90.") &&
           row.head_dim == c.width && row.key == c.key && row.value == c.value && c.width == c.value_width;
  });
}

// The error of all numbers over what they should be, as root mean squares.
double relative_error(std::span<const float> got, std::span<const double> want) {
  double squares = 0.0, differences = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    squares += want[i] * want[i];
    differences += (got[i] - want[i]) * (got[i] - want[i]);
  }
  return std::sqrt(differences / squares);
}

}  // namespace

void expect_attention(Path& path, const Case& c, const Numbers& n, const std::vector<double>& want, double bound) {
  const std::vector<float> got = attention_on(path, c, n);
  if (!rounds_chunks(path, c)) return expect_close(describe(c), got, want, c.value_width, bound, c.compute);
  const std::vector<double> rounded = reference(c, with_rounded_queries(c, n));
  const auto chunk =
      std::find_if(c.sequences.begin(), c.sequences.end(), [](const Sequence& s) { return s.length > 1; });
  const auto decoded = static_cast<std::size_t>((chunk - c.sequences.begin()) * c.kv_heads * c.group * c.value_width);
  expect_close(describe(c) + " decodes", std::span(got).first(decoded), std::span(rounded).first(decoded),
               c.value_width, kDecodeBound, c.compute);
  const auto rows = std::span(got).subspan(decoded);
  if (rows.empty()) return;
  const auto should = std::span(rounded).subspan(decoded);
  expect_close(describe(c) + " chunks", rows, should, c.value_width, kLargestOfRow, c.compute);
  const double error = relative_error(rows, should);
  EXPECT_LE(error, kOfAll) << describe(c);
  if (std::getenv("OCTAVO_REPORT") != nullptr) std::printf("%s chunks: all rows %.2g\n", describe(c).c_str(), error);
}

}  // namespace octavo::conformance
