#include <cmath>

#include "cpu/plain.h"
#include "cpu/rotation.h"
#include "cpu/rows.h"

namespace octavo::cpu {

Angles angles_at(const RopeRule& rule, std::int32_t position) {
  Angles angles;
  const float* inv_freq = floats(rule.inv_freq);
  const auto pairs = static_cast<std::size_t>(rule.inv_freq.elements());
  angles.cos.resize(pairs);
  angles.sin.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double angle =
        static_cast<float>(position) * inv_freq[i];  // the product is float32, as the models were trained
    angles.cos[i] = static_cast<float>(std::cos(angle)) * rule.factor;
    angles.sin[i] = static_cast<float>(std::sin(angle)) * rule.factor;
  }
  return angles;
}

void rotate_row(const Angles& angles, bool interleaved, float* row, std::int64_t width) {
  const std::size_t pairs = angles.cos.size();
  check(2 * static_cast<std::int64_t>(pairs) <= width, "more pairs to rotate than a head has");
  std::vector<float> turned(2 * pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double a = row[interleaved ? 2 * i : i];
    const double b = row[interleaved ? 2 * i + 1 : i + pairs];
    turned[i] = static_cast<float>(a * angles.cos[i] - b * angles.sin[i]);
    turned[i + pairs] = static_cast<float>(b * angles.cos[i] + a * angles.sin[i]);
  }
  std::copy(turned.begin(), turned.end(), row);
}

namespace plain {

void rope(ThreadPool& pool, const RopeArgs& args) {
  if (args.rule.inv_freq.empty()) return;
  const std::int64_t width = args.x.size(2);
  const std::int32_t* positions = ints(args.positions);
  check(args.positions.elements() == args.x.size(0), "rope needs one position a token");
  pool.run(args.x.size(0), [&](std::int64_t t) {
    const Angles angles = angles_at(args.rule, positions[t]);
    std::vector<float> row(static_cast<std::size_t>(width));
    for (std::int64_t head = 0; head < args.x.size(1); ++head) {
      std::byte* place = row_at(args.x, t, head);
      load_row(place, args.x.dtype(), width, row.data());
      rotate_row(angles, args.rule.interleaved, row.data(), width);
      store_row(row.data(), width, place, args.x.dtype());
    }
  });
}

}  // namespace plain
}  // namespace octavo::cpu
