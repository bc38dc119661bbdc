#include "cpu/norm.h"

#include <cmath>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu {

void norm_row(const NormRule& rule, DType compute, float* row, std::int64_t n) {
  double squares = 0.0;
  for (std::int64_t i = 0; i < n; ++i) squares += static_cast<double>(row[i]) * row[i];
  const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + rule.eps);
  const float* weight = floats(rule.weight);
  check(weight == nullptr || rule.weight.elements() == n, "a norm's weight has one number a channel");
  for (std::int64_t i = 0; i < n; ++i) {
    const double y = row[i] * factor;
    if (weight == nullptr)
      row[i] = static_cast<float>(y);
    else if (rule.rounded_first)
      row[i] = (weight[i] + rule.weight_offset) * rounded_to(compute, static_cast<float>(y));
    else
      row[i] = static_cast<float>((static_cast<double>(weight[i]) + rule.weight_offset) * y);
  }
}

namespace plain {

void rms_norm(ThreadPool& pool, const RmsNormArgs& args) {
  const std::int64_t n = args.x.size(1);
  check(args.out.size(0) == args.x.size(0) && args.out.size(1) == n, "shapes of rms_norm");
  pool.run(args.x.size(0), [&](std::int64_t i) {
    std::vector<float> row(static_cast<std::size_t>(n));
    load_row(row_at(args.x, i), args.x.dtype(), n, row.data());
    norm_row(args.rule, args.x.dtype(), row.data(), n);
    store_row(row.data(), n, row_at(args.out, i), args.out.dtype());
  });
}

void add_rms_norm(ThreadPool& pool, const AddRmsNormArgs& args) {
  const std::int64_t n = args.x.size(1);
  check(args.residual.size(0) == args.x.size(0) && args.residual.size(1) == n, "shapes of add_rms_norm");
  check(args.out.size(0) == args.x.size(0) && args.out.size(1) == n, "shapes of add_rms_norm");
  pool.run(args.x.size(0), [&](std::int64_t i) {
    std::vector<float> row(static_cast<std::size_t>(n));
    std::vector<float> residual(static_cast<std::size_t>(n));
    load_row(row_at(args.x, i), args.x.dtype(), n, row.data());
    load_row(row_at(args.residual, i), args.residual.dtype(), n, residual.data());
    for (std::size_t j = 0; j < residual.size(); ++j)
      residual[j] = rounded_to(args.residual.dtype(), residual[j] + row[j]);
    store_row(residual.data(), n, row_at(args.residual, i), args.residual.dtype());
    norm_row(args.rule, args.residual.dtype(), residual.data(), n);
    store_row(residual.data(), n, row_at(args.out, i), args.out.dtype());
  });
}

}  // namespace plain
}  // namespace octavo::cpu
