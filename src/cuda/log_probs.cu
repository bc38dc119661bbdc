// log_probs: a block a row. The best tokens are found one after the other, each the best below the one before.
#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/verbs.h"
#include "cuda/vocabulary.cuh"

namespace octavo::cuda {

namespace {

constexpr int kLogProbThreads = kVocabularyThreads;

// log of the sum of exponentials; the infinity itself if the best logit is one.
__device__ double log_sum(const float* logits, std::int64_t vocab, float max) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < vocab; i += kLogProbThreads)
    if (!isnan(logits[i])) sum += static_cast<double>(expf(logits[i] - max));
  sum = sum_block(sum);
  return isinf(max) ? static_cast<double>(max) : static_cast<double>(max) + log(sum);
}

__device__ float log_prob(float logit, double total) {
  if (static_cast<double>(logit) == total) return 0.0f;  // the only one, or an infinity that takes all
  return isinf(logit) ? -INFINITY : static_cast<float>(static_cast<double>(logit) - total);
}

struct Results {
  float* chosen = nullptr;
  std::int32_t* rank = nullptr;
  std::int32_t* top_ids = nullptr;
  float* top_values = nullptr;
  std::int64_t top = 0;
};

__global__ void __launch_bounds__(kLogProbThreads)
    log_probs_kernel(Rows<const float> rows, const std::int32_t* ids, std::int64_t vocab, Results results) {
  const std::int64_t row = blockIdx.x;
  const float* logits = rows.row(row);
  const std::uint64_t best = best_below(logits, vocab, ~std::uint64_t{0});
  const double total = log_sum(logits, vocab, logit_of(static_cast<std::uint32_t>(best >> 32)));
  const std::uint64_t chosen = rank_key(logits[ids[row]], static_cast<std::uint32_t>(ids[row]));
  int better = 0;
  for (std::int64_t i = threadIdx.x; i < vocab; i += kLogProbThreads)
    better += rank_key(logits[i], static_cast<std::uint32_t>(i)) > chosen ? 1 : 0;
  better = sum_block(better);
  if (threadIdx.x == 0) {
    results.chosen[row] = log_prob(logit_of(static_cast<std::uint32_t>(chosen >> 32)), total);
    results.rank[row] = better + 1;
  }
  std::uint64_t key = best;
  for (std::int64_t j = 0; j < results.top; ++j) {
    if (j > 0) key = best_below(logits, vocab, key);
    if (threadIdx.x == 0) {
      results.top_ids[row * results.top + j] = static_cast<std::int32_t>(id_of(key));
      results.top_values[row * results.top + j] = log_prob(logit_of(static_cast<std::uint32_t>(key >> 32)), total);
    }
  }
}

}  // namespace

void log_probs(cudaStream_t stream, const LogProbsArgs& args) {
  const std::int64_t rows = args.logits.size(0);
  const std::int64_t vocab = args.logits.size(1);
  octavo::check(args.logits.dtype() == DType::f32 && args.ids.elements() == rows && args.chosen.elements() == rows &&
                    args.rank.elements() == rows,
                "shapes of log_probs");
  Results results{args.chosen.data<float>(), args.rank.data<std::int32_t>()};
  if (!args.top_ids.empty()) {
    octavo::check(args.top_ids.size(0) == rows && args.top_ids.size(1) <= vocab &&
                      args.top_values.elements() == args.top_ids.elements(),
                  "more top tokens than the vocabulary has");
    results.top_ids = args.top_ids.data<std::int32_t>();
    results.top_values = args.top_values.data<float>();
    results.top = args.top_ids.size(1);
  }
  if (rows == 0) return;
  log_probs_kernel<<<static_cast<unsigned>(rows), kLogProbThreads, 0, stream>>>(rows_of<const float>(args.logits),
                                                                                ints(args.ids), vocab, results);
  check_launch();
}

}  // namespace octavo::cuda
