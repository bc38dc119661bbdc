// route: a warp a token. Experts are chosen one after the other, each the best of what is left, ties to the lowest.
#include "cuda/check.h"
#include "cuda/numbers.cuh"
#include "cuda/verbs.h"

namespace octavo::cuda {

namespace {

constexpr int kMaxExperts = 1024;
constexpr double kOut = -INFINITY;  // chosen already, or in a group that was not

struct Routing {
  RouteKind kind = RouteKind::softmax_all;
  const float* choice_bias = nullptr;  // f32 [experts] or null
  int experts = 0, k = 0, num_groups = 1, top_groups = 1;
  bool renormalise = true;
  float scaling = 1.0f;
};

__device__ double max_of_warp(double x) {
  for (int offset = 16; offset > 0; offset /= 2) x = fmax(x, __shfl_xor_sync(~0u, x, offset));
  return x;
}
__device__ double sum_of_warp(double x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// The index of the best of x[0, n), ties to the lowest; what was taken counts less than -inf.
__device__ int best_of(const double* x, const bool* taken, int n) {
  double best = kOut;
  int at = n;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 32)
    if (!taken[i] && (at == n || x[i] > best)) {
      best = x[i];
      at = i;
    }
  for (int offset = 16; offset > 0; offset /= 2) {
    const double other = __shfl_xor_sync(~0u, best, offset);
    const int other_at = __shfl_xor_sync(~0u, at, offset);
    if (other_at < n && (at == n || other > best || (other == best && other_at < at))) {
      best = other;
      at = other_at;
    }
  }
  return at;
}

// Excludes all but the best groups; a group's score is the sum of its two best.
__device__ void keep_best_groups(const Routing& routing, double* choice, double* scores, bool* taken) {
  const int size = routing.experts / routing.num_groups;
  for (int g = static_cast<int>(threadIdx.x); g < routing.num_groups; g += 32) {
    double first = kOut, second = kOut;
    for (int i = g * size; i < (g + 1) * size; ++i) {
      if (choice[i] > first) {
        second = first;
        first = choice[i];
      } else if (choice[i] > second) {
        second = choice[i];
      }
    }
    scores[g] = size > 1 ? first + second : first;
    taken[g] = false;
  }
  __syncwarp();
  for (int j = 0; j < routing.top_groups; ++j) {
    const int group = best_of(scores, taken, routing.num_groups);
    if (threadIdx.x == 0) taken[group] = true;
    __syncwarp();
  }
  for (int i = static_cast<int>(threadIdx.x); i < routing.experts; i += 32)
    if (!taken[i / size]) choice[i] = kOut;
  __syncwarp();
}

__global__ void route_kernel(Rows<const float> logits, Routing routing, std::int32_t* ids, float* weights) {
  __shared__ double weighed[kMaxExperts], choice[kMaxExperts], scores[kMaxExperts];
  __shared__ bool taken[kMaxExperts];
  const float* row = logits.row(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x);
  double max = kOut;
  bool whole = true;
  for (int i = lane; i < routing.experts; i += 32) {
    whole = whole && !isnan(row[i]);
    if (!isnan(row[i])) max = fmax(max, static_cast<double>(row[i]));
  }
  max = max_of_warp(max);
  whole = __all_sync(~0u, whole);
  double sum = 0.0;
  for (int i = lane; i < routing.experts; i += 32) {
    const double x = isnan(row[i]) ? kOut : static_cast<double>(row[i]);
    const bool sigmoid = routing.kind == RouteKind::sigmoid_groups;
    weighed[i] = sigmoid ? 1.0 / (1.0 + exp(-x)) : exp(x - max);
    sum += weighed[i];
    choice[i] = sigmoid ? weighed[i] + (routing.choice_bias != nullptr ? routing.choice_bias[i] : 0.0f) : x;
  }
  sum = sum_of_warp(sum);
  __syncwarp();
  if (routing.kind == RouteKind::sigmoid_groups && routing.top_groups < routing.num_groups)
    keep_best_groups(routing, choice, scores, taken);
  for (int i = lane; i < routing.experts; i += 32) taken[i] = false;
  __syncwarp();
  double chosen = routing.kind == RouteKind::sigmoid_groups ? 1e-20 : 0.0;
  for (int j = 0; j < routing.k; ++j) {
    const int best = best_of(choice, taken, routing.experts);
    chosen += weighed[best];
    __syncwarp();
    if (lane == 0) {
      taken[best] = true;
      ids[blockIdx.x * routing.k + j] = best;
    }
    __syncwarp();
  }
  double divisor = routing.kind == RouteKind::softmax_all ? sum : 1.0;
  if (routing.kind == RouteKind::softmax_chosen || routing.renormalise) divisor = chosen;
  for (int j = lane; j < routing.k; j += 32) {
    const std::int64_t at = std::int64_t{blockIdx.x} * routing.k + j;
    weights[at] = whole ? static_cast<float>(weighed[ids[at]] / divisor * routing.scaling) : NAN;
  }
}

}  // namespace

void route(cudaStream_t stream, const RouteArgs& args) {
  const std::int64_t tokens = args.logits.size(0);
  const std::int64_t experts = args.logits.size(1);
  const std::int64_t k = args.ids.size(1);
  octavo::check(k >= 1 && k <= experts && experts <= kMaxExperts, "more experts to choose than there are");
  octavo::check(args.num_groups >= 1 && experts % args.num_groups == 0 && args.top_groups >= 1 &&
                    args.top_groups <= args.num_groups,
                "groups of experts");
  octavo::check(args.ids.size(0) == tokens && args.weights.size(0) == tokens && args.weights.size(1) == k &&
                    args.ids.contiguous() && args.weights.contiguous() &&
                    (args.choice_bias.empty() || args.choice_bias.elements() == experts),
                "shapes of route");
  if (tokens == 0) return;
  const Routing routing{args.kind,       floats(args.choice_bias), static_cast<int>(experts), static_cast<int>(k),
                        args.num_groups, args.top_groups,          args.renormalise,          args.scaling};
  route_kernel<<<static_cast<unsigned>(tokens), 32, 0, stream>>>(
      rows_of<const float>(args.logits), routing, args.ids.data<std::int32_t>(), args.weights.data<float>());
  check_launch();
}

}  // namespace octavo::cuda
