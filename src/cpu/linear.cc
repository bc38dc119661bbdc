// linear, grouped_linear: a block of input rows at a time, so that a weight row is unpacked once for many of them.
#include <algorithm>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"
#include "cpu/weight_rows.h"

namespace octavo::cpu::plain {

namespace {

constexpr std::int64_t kRowsOfBlock = 32;  // input rows that share an unpacked weight row
constexpr std::int64_t kOutsOfPart = 16;   // weight rows of a piece of work
constexpr int kLanes = 8;                  // independent sums, so that the processor need not wait for each addition

double dot(const double* a, const double* b, std::int64_t n) {
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  double sum = 0.0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const double part : sums) sum += part;
  return sum;
}

// Rows of x as doubles.
std::vector<double> load_inputs(const Tensor& x, std::int64_t begin, std::int64_t count) {
  const std::int64_t n = x.size(1);
  std::vector<double> inputs(static_cast<std::size_t>(count * n));
  std::vector<float> row(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < count; ++i) {
    load_row(row_at(x, begin + i), x.dtype(), n, row.data());
    std::copy(row.begin(), row.end(), inputs.begin() + i * n);
  }
  return inputs;
}

void put(const Tensor& out, std::int64_t row, std::int64_t column, double value) {
  const auto rounded = static_cast<float>(value);
  store_row(&rounded, 1, row_at(out, row) + dtype_bytes(out.dtype(), column), out.dtype());
}

// Which (token, choice) pairs an expert serves, as rows t k + j, in order.
std::vector<std::vector<std::int64_t>> rows_of_experts(const GroupedLinearArgs& args) {
  std::vector<std::vector<std::int64_t>> rows(args.experts.size());
  const std::int32_t* ids = ints(args.ids);
  for (std::int64_t i = 0; i < args.ids.elements(); ++i) {
    check(ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < args.experts.size(), "there is no such expert");
    rows[static_cast<std::size_t>(ids[i])].push_back(i);
  }
  return rows;
}

// results [tokens * k, out] of every pair, in double.
void run_experts(ThreadPool& pool, const GroupedLinearArgs& args, std::vector<double>& results) {
  const std::int64_t k = args.ids.size(1);
  const std::int64_t in = args.x.size(1);
  const std::int64_t out = args.experts[0].out;
  const bool row_of_token = args.x.size(0) == args.ids.size(0);
  const std::vector<double> inputs = load_inputs(args.x, 0, args.x.size(0));
  const std::vector<std::vector<std::int64_t>> rows = rows_of_experts(args);
  const float* bias = floats(args.bias);
  const std::int64_t parts = (out + kOutsOfPart - 1) / kOutsOfPart;
  pool.run(static_cast<std::int64_t>(rows.size()) * parts, [&](std::int64_t piece) {
    const auto expert = static_cast<std::size_t>(piece / parts);
    if (rows[expert].empty()) return;
    std::vector<double> weights(static_cast<std::size_t>(in));
    const std::int64_t begin = piece % parts * kOutsOfPart;
    for (std::int64_t o = begin; o < std::min(out, begin + kOutsOfPart); ++o) {
      load_weight_row(args.experts[expert], o, weights.data());
      const double start = bias != nullptr ? bias[static_cast<std::int64_t>(expert) * out + o] : 0.0;
      for (const std::int64_t row : rows[expert])
        results[static_cast<std::size_t>(row * out + o)] =
            start + dot(inputs.data() + (row_of_token ? row / k : row) * in, weights.data(), in);
    }
  });
}

}  // namespace

void check_linear(const LinearArgs& args) {
  check_weight(args.weight);
  check(args.x.size(1) == args.weight.in && args.out.size(0) == args.x.size(0) && args.out.size(1) == args.weight.out,
        "shapes of linear");
  check(args.bias.empty() || args.bias.elements() == args.weight.out, "a bias has one number an output");
}

void linear(ThreadPool& pool, const LinearArgs& args, bool) {
  check_linear(args);
  const Weight& weight = args.weight;
  const std::int64_t tokens = args.x.size(0);
  const float* bias = floats(args.bias);
  for (std::int64_t first = 0; first < tokens; first += kRowsOfBlock) {
    const std::int64_t count = std::min(kRowsOfBlock, tokens - first);
    const std::vector<double> inputs = load_inputs(args.x, first, count);
    pool.run((weight.out + kOutsOfPart - 1) / kOutsOfPart, [&](std::int64_t part) {
      std::vector<double> weights(static_cast<std::size_t>(weight.in));
      for (std::int64_t o = part * kOutsOfPart; o < std::min(weight.out, (part + 1) * kOutsOfPart); ++o) {
        load_weight_row(weight, o, weights.data());
        for (std::int64_t t = 0; t < count; ++t)
          put(args.out, first + t, o,
              (bias != nullptr ? bias[o] : 0.0) + dot(inputs.data() + t * weight.in, weights.data(), weight.in));
      }
    });
  }
}

void grouped_linear(ThreadPool& pool, const GroupedLinearArgs& args, bool) {
  check(!args.experts.empty() && args.ids.rank() == 2, "shapes of grouped_linear");
  for (const Weight& expert : args.experts) {
    check_weight(expert);
    check(expert.in == args.x.size(1) && expert.out == args.experts[0].out, "experts of one layer have one shape");
  }
  const std::int64_t tokens = args.ids.size(0);
  const std::int64_t k = args.ids.size(1);
  const std::int64_t out = args.experts[0].out;
  const bool summed = !args.weights.empty();
  check(args.x.size(0) == tokens || args.x.size(0) == tokens * k,
        "grouped_linear reads a row a token or a row a choice");
  check(args.out.size(0) == (summed ? tokens : tokens * k) && args.out.size(1) == out, "shapes of grouped_linear");
  std::vector<double> results(static_cast<std::size_t>(tokens * k * out));
  run_experts(pool, args, results);
  const float* weights = floats(args.weights);
  pool.run(args.out.size(0), [&](std::int64_t row) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = summed ? 0.0 : results[static_cast<std::size_t>(row * out + o)];
      for (std::int64_t j = 0; summed && j < k; ++j)
        sum += weights[row * k + j] * results[static_cast<std::size_t>((row * k + j) * out + o)];
      put(args.out, row, o, sum);
    }
  });
}

}  // namespace octavo::cpu::plain
