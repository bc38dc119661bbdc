// sample: the steps of ops/sampling.h in their order.
//
// Where that leaves a choice: a NaN logit counts as -inf. Among equal logits the lower id is the better one, so top-k
// keeps exactly k. top-p keeps the best tokens until their share reaches p, the one that reaches it included. The draw
// walks the kept tokens by id. If every token is banned, the bans are void: the best token of the unchanged logits is
// taken. If those are nothing but -inf and NaN, the model is broken and there is no token: -1.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu::plain {

namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

// Comparisons are never true of a NaN.
std::int32_t argmax(const float* logits, std::int64_t vocab) {
  constexpr std::int64_t kBlock = 64;  // few have a better one, and whether they do is asked of all at once
  std::int32_t best = 0;
  float best_logit = kBanned;
  for (std::int64_t begin = 0; begin < vocab; begin += kBlock) {
    const std::int64_t end = std::min(vocab, begin + kBlock);
    int any = 0;
    for (std::int64_t i = begin; i < end; ++i) any |= logits[i] > best_logit ? 1 : 0;
    for (std::int64_t i = begin; any != 0 && i < end; ++i)
      if (logits[i] > best_logit) {
        best = static_cast<std::int32_t>(i);
        best_logit = logits[i];
      }
  }
  return best;
}

struct Candidate {
  float logit = 0.0f;  // the order: two of them may be too close for p to tell apart
  float p = 0.0f;      // relative to the best token's
  std::int32_t id = 0;
};
bool better(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

std::vector<float> named_logits(const SampleArgs& args, const SampleRow& row, const float* logits) {
  std::vector<float> named(static_cast<std::size_t>(args.logits.size(1)), kBanned);
  for (std::int64_t i = row.bias_begin; i < row.bias_end; ++i) {
    const auto id = static_cast<std::size_t>(args.bias_ids.data<std::int32_t>()[i]);
    check(id < named.size(), "a biased token beyond the vocabulary");
    named[id] = logits[id];
  }
  return named;
}

void adjust(const SampleArgs& args, const SampleRow& row, float* logits) {
  const std::int64_t vocab = args.logits.size(1);
  for (std::int64_t i = row.bias_begin; i < row.bias_end; ++i) {
    const std::int32_t id = args.bias_ids.data<std::int32_t>()[i];
    check(id >= 0 && id < vocab, "a biased token beyond the vocabulary");
    logits[id] += args.bias_values.data<float>()[i];
  }
  for (std::int64_t i = row.seen_begin; i < row.seen_end; ++i) {
    const std::int32_t id = args.seen_ids.data<std::int32_t>()[i];
    const std::int32_t count = args.seen_counts.data<std::int32_t>()[i];
    check(id >= 0 && id < vocab, "a seen token beyond the vocabulary");
    float& logit = logits[id];
    logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    if (count > 0) logit -= row.frequency_penalty * static_cast<float>(count) + row.presence_penalty;
  }
}

// All tokens that min-p keeps, by id.
std::vector<Candidate> candidates_of(const SampleRow& row, const float* logits, std::int64_t vocab, float max) {
  std::vector<Candidate> candidates;
  candidates.reserve(static_cast<std::size_t>(vocab));
  const float inverse = 1.0f / row.temperature;
  for (std::int64_t i = 0; i < vocab; ++i) {
    if (!(logits[i] > kBanned)) continue;
    const float p = logits[i] == max ? 1.0f : std::exp((logits[i] - max) * inverse);
    if (p > 0.0f && p >= row.min_p) candidates.push_back({logits[i], p, static_cast<std::int32_t>(i)});
  }
  return candidates;
}

// Classes of magnitude, sixteen between a power of two and the next.
constexpr int kClassShift = 19;
std::size_t class_of(float p) { return std::bit_cast<std::uint32_t>(p) >> kClassShift; }
constexpr std::size_t kNumClasses = (std::bit_cast<std::uint32_t>(1.0f) >> kClassShift) + 1;

// What a candidate adds to the share that is kept: itself for top-k, its probability for top-p.
enum class Measure { count, probability };
double weight_of(const Candidate& candidate, Measure measure) { return measure == Measure::count ? 1.0 : candidate.p; }

// The candidate of `edge` with which the sum reaches the target. Halves the range in which it lies.
Candidate last_within(std::vector<Candidate>& edge, double sum, double target, Measure measure) {
  auto begin = edge.begin();
  auto end = edge.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, better);
    double half = 0.0;
    for (auto candidate = begin; candidate != middle; ++candidate) half += weight_of(*candidate, measure);
    if (sum + half >= target) {
      end = middle;
    } else {
      sum += half;
      begin = middle;
    }
  }
  return *begin;
}

// Keeps the best candidates until their sum reaches the target, in their order by id. Linear time however flat the
// distribution is: only the class in which the target is reached is looked at closely.
void keep_share(std::vector<Candidate>& candidates, double target, Measure measure) {
  std::vector<double> sums(kNumClasses, 0.0);
  for (const Candidate& candidate : candidates) sums[class_of(candidate.p)] += weight_of(candidate, measure);
  std::size_t reached = kNumClasses - 1;  // the best token, with p = 1, lies here
  double sum = 0.0;
  while (reached > 0 && sum + sums[reached] < target) sum += sums[reached--];
  std::vector<Candidate> edge;
  for (const Candidate& candidate : candidates)
    if (class_of(candidate.p) == reached) edge.push_back(candidate);
  if (edge.empty()) return;
  const Candidate last = last_within(edge, sum, target, measure);
  std::erase_if(candidates, [&](const Candidate& candidate) { return better(last, candidate); });
}

double mass(const std::vector<Candidate>& candidates) {
  double sum = 0.0;
  for (const Candidate& candidate : candidates) sum += candidate.p;
  return sum;
}

std::int32_t draw(const SampleRow& row, const std::vector<Candidate>& candidates) {
  const double target = uniform_from(row.seed, row.position) * mass(candidates);
  double sum = 0.0;
  for (const Candidate& candidate : candidates)
    if ((sum += candidate.p) > target) return candidate.id;
  return candidates.back().id;
}

std::int32_t sample_row(const SampleArgs& args, const SampleRow& row, const float* unchanged) {
  const std::int64_t vocab = args.logits.size(1);
  std::vector<float> changed;
  const float* logits = unchanged;
  if (row.bias_end > row.bias_begin || row.seen_end > row.seen_begin) {
    if (row.only_biased)
      changed = named_logits(args, row, unchanged);
    else
      changed.assign(unchanged, unchanged + vocab);
    adjust(args, row, changed.data());
    logits = changed.data();
  }
  std::int32_t best = argmax(logits, vocab);
  if (!(logits[best] > kBanned)) best = argmax(unchanged, vocab);
  if (!(unchanged[best] > kBanned)) return -1;
  if (!(logits[best] > kBanned)) return best;
  if (row.temperature <= 0.0f) return best;
  std::vector<Candidate> candidates = candidates_of(row, logits, vocab, logits[best]);
  if (row.top_k > 0) keep_share(candidates, row.top_k, Measure::count);
  if (row.top_p < 1.0f) keep_share(candidates, row.top_p * mass(candidates), Measure::probability);
  return draw(row, candidates);
}

}  // namespace

void sample(ThreadPool& pool, const SampleArgs& args) {
  const std::int64_t rows = args.logits.size(0);
  check(args.logits.dtype() == DType::f32 && args.out.elements() == rows && (rows == 0 || args.rows != nullptr),
        "shapes of sample");
  auto* out = args.out.data<std::int32_t>();
  pool.run(rows, [&](std::int64_t i) {
    out[i] = sample_row(args, args.rows[i], reinterpret_cast<const float*>(row_at(args.logits, i)));
  });
}

}  // namespace octavo::cpu::plain
