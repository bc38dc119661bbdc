// head_linear: each head's rows of one matrix, both ways round, from and to views of wider rows.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/arena.h"
#include "tests/conformance/host_weights.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct HeadCase {
  std::int64_t tokens = 19, heads = 3, unit = 13, first = 4, count = 6;
  std::int64_t apart = 5;  // numbers of something else behind each row of x: of 8, rows that began aligned stay so
  bool transposed = false;
  DType compute = DType::f32;
  HostPart part = {};  // [heads * unit, in]

  std::int64_t in() const { return transposed ? count : part.in; }
  std::int64_t out() const { return transposed ? part.in : count; }
};

// Of x [tokens, heads, n] with rows of the matrix, in double.
std::vector<double> reference(const HeadCase& c, const std::vector<float>& x) {
  std::vector<double> want;
  for (std::int64_t i = 0; i < c.tokens * c.heads; ++i)
    for (std::int64_t o = 0; o < c.out(); ++o) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < c.in(); ++j) {
        const std::int64_t row = i % c.heads * c.unit + c.first + (c.transposed ? j : o);
        sum += static_cast<double>(x[static_cast<std::size_t>(i * c.in() + j)]) *
               c.part.values[static_cast<std::size_t>(row * c.part.in + (c.transposed ? o : j))];
      }
      want.push_back(sum);
    }
  return want;
}

void expect_head_linear(const HeadCase& c, const std::string& name) {
  Random random(51);
  const std::vector<float> x = rounded(random.normals(c.tokens * c.heads * c.in()), c.compute);
  const std::vector<double> want = reference(c, x);
  std::vector<float> wide;
  for (std::size_t i = 0; i < x.size(); ++i) {
    wide.push_back(x[i]);
    if (static_cast<std::int64_t>(i + 1) % c.in() == 0)
      wide.insert(wide.end(), static_cast<std::size_t>(c.apart), 9.0f);
  }
  for_each_path([&](Path& path) {
    if (!path.processor && c.part.dtype == DType::e2m1) return;
    Arena arena(path.backend->device());
    const Weight weight = upload(arena, {c.part});
    const Tensor out = arena.blank({c.tokens, c.heads, c.out() + 7});
    path.backend->ops().head_linear(
        {.x = arena.floats(wide, {c.tokens, c.heads, c.in() + c.apart}, c.compute).columns(0, c.in()),
         .weight = weight,
         .unit = c.unit,
         .first = c.first,
         .count = c.count,
         .transposed = c.transposed,
         .out = out.columns(7, c.out())});
    const Tensor rows = out.reshaped({c.tokens * c.heads, c.out() + 7});
    // Elsewhere than on the processor bfloat16 meets bfloat16: of other weights each number is rounded to it.
    const bool rounds = !path.processor && c.compute == DType::bf16 && c.part.dtype != DType::bf16;
    expect_close(name, arena.read(rows.columns(7, c.out())), want, c.out(), path.plain ? 1e-6 : rounds ? 1.6e-2 : 1e-5);
    for (const float before : arena.read(rows.columns(0, 7))) ASSERT_TRUE(std::isnan(before)) << "a write beside it";
  });
}

TEST(HeadLinear, EachHeadMeetsItsOwnRows) {
  Random random(52);
  for (const DType compute : {DType::f32, DType::bf16})
    for (const bool transposed : {false, true}) {
      HeadCase c{.transposed = transposed, .compute = compute};
      for (const DType stored : {DType::f32, DType::bf16}) {
        c.part = make_part(stored, ScaleGrain::none, c.heads * c.unit, 40, random);
        expect_head_linear(c, "head_linear");
      }
    }
}

// Every kind of weight; rows of x that fill tiles and pass their end, aligned and not, widths of several strips and
// parts of them, heads that begin within a block of scales.
TEST(HeadLinear, EveryKindOfWeight) {
  Random random(53);
  std::vector<WeightKind> kinds = all_weight_kinds();
  kinds.push_back(kMxfp4);
  for (const WeightKind& kind : kinds)
    for (const std::int64_t tokens : {1, kind.dtype == DType::bf16 ? 131 : 8})
      for (const bool aligned : {false, true})
        for (const bool transposed : {false, true}) {
          HeadCase c{.tokens = tokens, .heads = 2, .unit = 56, .first = 20, .count = 35, .transposed = transposed};
          if (aligned) c.count = 32, c.apart = 8;
          c.compute = tokens == 1 ? DType::f32 : DType::bf16;
          c.part =
              make_part(kind.dtype, kind.grain, c.heads * c.unit, kind.grain == ScaleGrain::none ? 512 : 480, random);
          expect_head_linear(c, std::string(kind.name) + (transposed ? " turned" : ""));
        }
}

}  // namespace
}  // namespace octavo::conformance
