// delta_rule in its recurrent form: token by token, the state rounded to float32 after each, so that chunks do not
// matter.
#include <cmath>
#include <vector>

#include "cpu/delta_heads.h"
#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu::plain {

namespace {

constexpr double kEps = 1e-6;

std::vector<double> unit_row(const Tensor& x, std::int64_t t, std::int64_t head, double scale) {
  const auto width = static_cast<std::size_t>(x.size(2));
  std::vector<float> row(width);
  load_row(row_at(x, t, head), x.dtype(), x.size(2), row.data());
  double squares = 0.0;
  for (const float v : row) squares += static_cast<double>(v) * v;
  std::vector<double> unit(width);
  for (std::size_t i = 0; i < width; ++i) unit[i] = row[i] / std::sqrt(squares + kEps) * scale;
  return unit;
}

// One token of one value head.
void step(const DeltaRuleArgs& args, std::int64_t t, const DeltaHead& at) {
  const std::int64_t key_width = args.k.size(2);
  const std::int64_t value_width = args.v.size(2);
  const std::int64_t head = at.head;
  const std::int64_t key_head = at.key_head;
  float* const state = at.state;
  const std::vector<double> q = unit_row(args.q, t, key_head, 1.0 / std::sqrt(static_cast<double>(key_width)));
  const std::vector<double> k = unit_row(args.k, t, key_head, 1.0);
  const double decay = std::exp(static_cast<double>(reinterpret_cast<const float*>(row_at(args.decay, t))[head]));
  const double beta = reinterpret_cast<const float*>(row_at(args.beta, t))[head];
  std::vector<float> v(static_cast<std::size_t>(value_width));
  load_row(row_at(args.v, t, head), args.v.dtype(), value_width, v.data());
  // Row by row of the state, as it lies in memory; each column is summed in the order of its rows.
  std::vector<double> delta(v.size());
  std::vector<double> out(v.size());
  for (std::int64_t r = 0; r < key_width; ++r) {
    const double key = k[static_cast<std::size_t>(r)] * decay;
    const float* row = state + r * value_width;
    for (std::size_t c = 0; c < delta.size(); ++c) delta[c] += key * row[c];
  }
  for (std::size_t c = 0; c < delta.size(); ++c) delta[c] = beta * (v[c] - delta[c]);
  for (std::int64_t r = 0; r < key_width; ++r) {
    const double key = k[static_cast<std::size_t>(r)];
    const double query = q[static_cast<std::size_t>(r)];
    float* row = state + r * value_width;
    for (std::size_t c = 0; c < delta.size(); ++c) {
      const double next = decay * row[c] + key * delta[c];
      out[c] += query * next;
      row[c] = static_cast<float>(next);
    }
  }
  for (std::size_t c = 0; c < v.size(); ++c) v[c] = static_cast<float>(out[c]);
  store_row(v.data(), value_width, row_at(args.out, t, head), args.out.dtype());
}

}  // namespace

void delta_rule(ThreadPool& pool, const DeltaRuleArgs& args, bool) {
  each_delta_head(pool, args, [](const DeltaRuleArgs& call, const DeltaHead& head) {
    for (std::int64_t t = head.begin; t < head.end; ++t) step(call, t, head);
  });
}

}  // namespace octavo::cpu::plain
