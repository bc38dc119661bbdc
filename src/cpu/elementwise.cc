// gather, add, scale, absmax: a pass over rows each.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/plain.h"
#include "cpu/rows.h"

namespace octavo::cpu::plain {

void gather(ThreadPool& pool, const GatherArgs& args) {
  const std::int64_t n = args.x.size(1);
  check(args.out.size(0) == args.index.elements() && args.out.size(1) == n && args.out.dtype() == args.x.dtype(),
        "shapes of gather");
  const std::int32_t* index = ints(args.index);
  const auto bytes = static_cast<std::size_t>(dtype_bytes(args.x.dtype(), n));
  pool.run(args.out.size(0), [&](std::int64_t i) {
    check(index[i] >= 0 && index[i] < args.x.size(0), "a row to gather that is not there");
    std::memcpy(row_at(args.out, i), row_at(args.x, index[i]), bytes);
  });
}

void add(ThreadPool& pool, const AddArgs& args) {
  const std::int64_t n = args.a.size(1);
  check(args.b.size(0) == args.a.size(0) && args.b.size(1) == n && args.out.size(0) == args.a.size(0) &&
            args.out.size(1) == n,
        "shapes of add");
  pool.run(args.a.size(0), [&](std::int64_t i) {
    std::vector<float> a(static_cast<std::size_t>(n));
    std::vector<float> b(static_cast<std::size_t>(n));
    load_row(row_at(args.a, i), args.a.dtype(), n, a.data());
    load_row(row_at(args.b, i), args.b.dtype(), n, b.data());
    for (std::size_t j = 0; j < a.size(); ++j) a[j] += b[j];
    store_row(a.data(), n, row_at(args.out, i), args.out.dtype());
  });
}

void scale(ThreadPool& pool, const ScaleArgs& args) {
  const std::int64_t n = args.x.size(1);
  check(args.out.size(0) == args.x.size(0) && args.out.size(1) == n, "shapes of scale");
  check(args.weight.empty() || args.weight.elements() == 1, "scale takes one factor");
  const double factor = args.weight.empty() ? args.factor : static_cast<double>(args.factor) * *floats(args.weight);
  pool.run(args.x.size(0), [&](std::int64_t i) {
    std::vector<float> row(static_cast<std::size_t>(n));
    load_row(row_at(args.x, i), args.x.dtype(), n, row.data());
    for (float& x : row) {
      const double y = x * factor;
      x = static_cast<float>(args.soft_cap > 0 ? args.soft_cap * std::tanh(y / args.soft_cap) : y);
    }
    store_row(row.data(), n, row_at(args.out, i), args.out.dtype());
  });
}

// A NaN does not raise the largest magnitude.
void absmax(ThreadPool& pool, const AbsmaxArgs& args) {
  const std::int64_t width = args.x.size(2);
  check(args.out.elements() == args.x.size(1), "absmax has one number a head");
  float* out = args.out.data<float>();
  pool.run(args.x.size(1), [&](std::int64_t head) {
    std::vector<float> row(static_cast<std::size_t>(width));
    for (std::int64_t t = 0; t < args.x.size(0); ++t) {
      load_row(row_at(args.x, t, head), args.x.dtype(), width, row.data());
      for (const float x : row) out[head] = std::max(out[head], std::fabs(x));
    }
  });
}

}  // namespace octavo::cpu::plain
