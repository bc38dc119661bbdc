// sample: the steps of ops/sampling.h in their order, a block a row; the choices that they leave open are the CPU
// wing's (cpu/sample.cc).
//
// What is kept is always the best tokens down to an edge, so no row is sorted: the edge is found by halving the range
// of logits. Probabilities relative to the best are counted in whole units of 2^-40, so that sums do not depend on
// their order and a request's draw is the same in any batch.
#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/verbs.h"
#include "cuda/vocabulary.cuh"

namespace octavo::cuda {

namespace {

constexpr int kSampleThreads = kVocabularyThreads;
constexpr float kUnit = 0x1p40f;
using Units = unsigned long long;

struct Lists {
  const std::int32_t* bias_ids = nullptr;
  const float* bias_values = nullptr;
  const std::int32_t* seen_ids = nullptr;
  const std::int32_t* seen_counts = nullptr;
};

// Each id is listed once a row, so threads do not meet; bias comes before penalties.
__device__ void adjust(const SampleRow& row, const Lists& lists, float* logits) {
  for (int i = row.bias_begin + static_cast<int>(threadIdx.x); i < row.bias_end; i += kSampleThreads)
    atomicAdd(logits + lists.bias_ids[i], lists.bias_values[i]);
  __syncthreads();
  for (int i = row.seen_begin + static_cast<int>(threadIdx.x); i < row.seen_end; i += kSampleThreads) {
    float& logit = logits[lists.seen_ids[i]];
    logit = logit > 0.0f ? logit / row.repetition_penalty : logit * row.repetition_penalty;
    const int count = lists.seen_counts[i];
    if (count > 0)
      logit -= __fadd_rn(__fmul_rn(row.frequency_penalty, static_cast<float>(count)), row.presence_penalty);
  }
  __syncthreads();
}

// A token's part of the distribution: nothing if it is banned, below min-p or worse than the edge.
struct Kept {
  float max = 0.0f;
  float inverse_temperature = 1.0f;
  float min_p = 0.0f;
  std::uint32_t edge = 0;                    // orders below are out
  std::uint32_t edge_last_id = 0xFFFFFFFFu;  // among the edge's own order, ids beyond are out

  __device__ Units probability(float logit, std::uint32_t id) const {
    const std::uint32_t order = order_of(logit);
    if (order <= kBannedOrder || order < edge || (order == edge && id > edge_last_id)) return 0;
    const float p = logit == max ? 1.0f : expf((logit - max) * inverse_temperature);
    return p >= min_p ? static_cast<Units>(p * kUnit) : 0;
  }
};

enum class Measure { count, probability };

__device__ Units weight_of(Units probability, Measure measure) {
  return measure == Measure::count ? static_cast<Units>(probability > 0) : probability;
}

__device__ Units sum_from(const Kept& kept, const float* logits, std::int64_t vocab, Measure measure,
                          std::uint32_t order) {
  Units sum = 0;
  for (std::int64_t i = threadIdx.x; i < vocab; i += kSampleThreads)
    if (order_of(logits[i]) >= order)
      sum += weight_of(kept.probability(logits[i], static_cast<std::uint32_t>(i)), measure);
  return sum_block(sum);
}

// The sum of `value` over all threads before this one.
__device__ Units sum_before(Units value) {
  __shared__ Units sums[kMaxWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Units inclusive = value;
  for (int offset = 1; offset < 32; offset *= 2) {
    const Units other = __shfl_up_sync(~0u, inclusive, offset);
    if (lane >= offset) inclusive += other;
  }
  __syncthreads();
  if (lane == 31) sums[warp] = inclusive;
  __syncthreads();
  Units before = inclusive - value;
  for (int w = 0; w < warp; ++w) before += sums[w];
  return before;
}

// A thread's share of ids, consecutive, so that sums follow the ids.
struct Share {
  std::int64_t begin = 0, end = 0;
};
__device__ Share share_of(std::int64_t vocab) {
  const std::int64_t size = (vocab + kSampleThreads - 1) / kSampleThreads;
  const std::int64_t begin = min(vocab, threadIdx.x * size);
  return {begin, min(vocab, begin + size)};
}

// The first id, in their order, with which the sum of weights passes `target`; only ids with order == `order`, or all
// for 0.
__device__ std::uint32_t id_past(const Kept& kept, const float* logits, std::int64_t vocab, Measure measure,
                                 std::uint32_t order, Units target) {
  __shared__ std::uint32_t found;
  const Share share = share_of(vocab);
  const auto weight = [&](std::int64_t i) {
    if (order != 0 && order_of(logits[i]) != order) return Units{0};
    return weight_of(kept.probability(logits[i], static_cast<std::uint32_t>(i)), measure);
  };
  Units own = 0;
  for (std::int64_t i = share.begin; i < share.end; ++i) own += weight(i);
  Units sum = sum_before(own);
  if (sum <= target && sum + own > target)
    for (std::int64_t i = share.begin; i < share.end; ++i) {
      sum += weight(i);
      if (sum > target) {
        found = static_cast<std::uint32_t>(i);
        break;
      }
    }
  __syncthreads();
  const std::uint32_t result = found;
  __syncthreads();
  return result;
}

// Keeps the best tokens until their sum reaches the target, the one that reaches it included.
__device__ void keep_share(Kept& kept, const float* logits, std::int64_t vocab, Units target, Measure measure) {
  if (sum_from(kept, logits, vocab, measure, 0) <= target) return;
  std::uint32_t low = 0;  // from here on the sum reaches the target; from `high` on it does not
  std::uint32_t high = order_of(kept.max) + 1;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (sum_from(kept, logits, vocab, measure, middle) >= target)
      low = middle;
    else
      high = middle;
  }
  const Units above = sum_from(kept, logits, vocab, measure, low + 1);
  // Of the ones that are equal, as many as are needed, lowest ids first.
  kept.edge_last_id = id_past(kept, logits, vocab, measure, low, target - above - 1);
  kept.edge = low;
}

__device__ std::uint32_t draw(const SampleRow& row, Kept kept, const float* logits, std::int64_t vocab) {
  if (row.top_k > 0) keep_share(kept, logits, vocab, static_cast<Units>(row.top_k), Measure::count);
  if (row.top_p < 1.0f) {
    const double mass = static_cast<double>(sum_from(kept, logits, vocab, Measure::probability, 0));
    const Units target = static_cast<Units>(ceil(fmax(row.top_p * mass, 1.0)));
    keep_share(kept, logits, vocab, target, Measure::probability);
  }
  const double mass = static_cast<double>(sum_from(kept, logits, vocab, Measure::probability, 0));
  const auto target = static_cast<Units>(uniform_from(row.seed, row.position) * mass);
  return id_past(kept, logits, vocab, Measure::probability, 0, target);
}

__global__ void __launch_bounds__(kSampleThreads)
    sample_kernel(Rows<const float> logits, const SampleRow* rows, Lists lists, float* changed, std::int64_t vocab,
                  std::int32_t* out) {
  const SampleRow row = rows[blockIdx.x];
  const float* unchanged = logits.row(blockIdx.x);
  const float* used = unchanged;
  if (row.bias_end > row.bias_begin || row.seen_end > row.seen_begin) {
    float* own = changed + blockIdx.x * vocab;
    for (std::int64_t i = threadIdx.x; i < vocab; i += kSampleThreads)
      own[i] = row.only_biased ? -INFINITY : unchanged[i];
    __syncthreads();
    for (int i = row.bias_begin + static_cast<int>(threadIdx.x); row.only_biased && i < row.bias_end;
         i += kSampleThreads)
      own[lists.bias_ids[i]] = unchanged[lists.bias_ids[i]];
    __syncthreads();
    adjust(row, lists, own);
    used = own;
  }
  const std::uint64_t best = best_below(used, vocab, ~std::uint64_t{0});
  std::uint32_t token = id_of(best);
  if (static_cast<std::uint32_t>(best >> 32) <= kBannedOrder) {  // every token is banned: the bans are void
    const std::uint64_t unbanned = best_below(unchanged, vocab, ~std::uint64_t{0});
    token = static_cast<std::uint32_t>(unbanned >> 32) <= kBannedOrder ? ~std::uint32_t{0} : id_of(unbanned);
  } else if (row.temperature > 0.0f) {
    const float max = logit_of(static_cast<std::uint32_t>(best >> 32));
    token = draw(row, {.max = max, .inverse_temperature = 1.0f / row.temperature, .min_p = row.min_p}, used, vocab);
  }
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<std::int32_t>(token);
}

}  // namespace

void sample(cudaStream_t stream, const SampleArgs& args) {
  const std::int64_t rows = args.logits.size(0);
  const bool changes = !args.bias_ids.empty() || !args.seen_ids.empty();
  octavo::check(args.logits.dtype() == DType::f32 && args.out.elements() == rows &&
                    (rows == 0 || args.rows != nullptr) &&
                    (!changes || args.changed.elements() >= args.logits.elements()),
                "shapes of sample");
  if (rows == 0) return;
  const Lists lists{ints(args.bias_ids), floats(args.bias_values), ints(args.seen_ids), ints(args.seen_counts)};
  sample_kernel<<<static_cast<unsigned>(rows), kSampleThreads, 0, stream>>>(
      rows_of<const float>(args.logits), args.rows, lists, args.changed.empty() ? nullptr : args.changed.data<float>(),
      args.logits.size(1), args.out.data<std::int32_t>());
  check_launch();
}

}  // namespace octavo::cuda
