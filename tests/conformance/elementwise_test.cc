// embed, gather, add, scale, absmax: rows that are strided, results rounded once, ends of every range.
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/float8.h"
#include "tests/conformance/host_weights.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

const DType kComputes[] = {DType::f32, DType::bf16};

TEST(Embed, RowsOfEachTableTimesTheScale) {
  Random random(6);
  constexpr std::int64_t kVocab = 11, kHidden = 96;
  const std::vector<std::int32_t> ids = {10, 0, 3, 3, 7};
  for (const DType stored : {DType::f32, DType::bf16, DType::f16})
    for (const DType compute : kComputes)
      for (const float scale : {1.0f, 39.25f}) {
        const std::vector<float> table = rounded(random.normals(kVocab * kHidden), stored);
        std::vector<double> want;
        for (const std::int32_t id : ids)
          for (std::int64_t i = 0; i < kHidden; ++i)
            want.push_back(static_cast<double>(table[static_cast<std::size_t>(id * kHidden + i)]) * scale);
        for_each_path([&](Path& path) {
          Arena arena(path.backend->device());
          Weight weight;
          weight.parts.push_back(
              {.values = arena.floats(table, {kVocab, kHidden}, stored), .scale = {}, .input_scale = {}});
          weight.out = kVocab;
          weight.in = kHidden;
          const Tensor out = arena.blank({5, kHidden}, compute);
          path.backend->ops().embed({.ids = arena.ints(ids, {5}), .table = weight, .scale = scale, .out = out});
          expect_close("embed", arena.read(out), want, kHidden, 1e-6, compute);
        });
      }
}

// Whole blocks as numbers, against what the gguf package reads from them.
TEST(Embed, PackedTables) {
  const std::vector<std::int32_t> ids = {4, 0, 4, 2};
  for (const WeightKind& kind : all_weight_kinds()) {
    if (!is_block_type(kind.dtype)) continue;
    Random random(9);
    constexpr std::int64_t kHidden = 512;
    const HostPart table = make_part(kind.dtype, kind.grain, 5, kHidden, random);
    std::vector<double> want;
    for (const std::int32_t id : ids)
      for (std::int64_t i = 0; i < kHidden; ++i)
        want.push_back(2.0 * table.values[static_cast<std::size_t>(id * kHidden + i)]);
    for_each_path([&](Path& path) {
      Arena arena(path.backend->device());
      const Tensor out = arena.blank({4, kHidden});
      path.backend->ops().embed(
          {.ids = arena.ints(ids, {4}), .table = upload(arena, {table}), .scale = 2.0f, .out = out});
      expect_close(kind.name, arena.read(out), want, kHidden, 3e-7);
    });
  }
}

TEST(Gather, RowsInAnyOrder) {
  Random random(7);
  const std::vector<std::int32_t> index = {4, 0, 4, 2};
  for (const DType compute : kComputes) {
    const std::vector<float> x = rounded(random.normals(5 * 40), compute);
    std::vector<float> want;
    for (const std::int32_t i : index) want.insert(want.end(), x.begin() + i * 40 + 8, x.begin() + i * 40 + 40);
    for_each_path([&](Path& path) {
      Arena arena(path.backend->device());
      const Tensor out = arena.blank({4, 32}, compute);
      path.backend->ops().gather(
          {.x = arena.floats(x, {5, 40}, compute).columns(8, 32), .index = arena.ints(index, {4}), .out = out});
      EXPECT_EQ(arena.read(out), want);
    });
  }
}

TEST(Add, RoundedOnceAndInPlace) {
  Random random(8);
  for (const DType compute : kComputes)
    for (const std::int64_t n : {1, 17, 576}) {
      const std::vector<float> a = rounded(random.normals(3 * n), compute);
      const std::vector<float> b = rounded(random.normals(3 * n), compute);
      std::vector<float> want;
      for (std::size_t i = 0; i < a.size(); ++i) want.push_back(a[i] + b[i]);
      want = rounded(std::move(want), compute);
      for_each_path([&](Path& path) {
        Arena arena(path.backend->device());
        const Tensor x = arena.floats(a, {3, n}, compute);
        const Tensor y = arena.floats(b, {3, n}, compute);
        const Tensor out = arena.blank({3, n}, compute);
        path.backend->ops().add({.a = x, .b = y, .out = out});
        EXPECT_EQ(arena.read(out), want);
        path.backend->ops().add({.a = x, .b = y, .out = x});
        EXPECT_EQ(arena.read(x), want);
      });
    }
}

TEST(Add, ToAStreamOfAnotherDtype) {
  Random random(18);
  for (const DType added : kComputes)
    for (const DType stream : kComputes) {
      const std::vector<float> a = rounded(random.normals(3 * 40), stream);
      const std::vector<float> b = rounded(random.normals(3 * 40), added);
      std::vector<float> want;
      for (std::size_t i = 0; i < a.size(); ++i) want.push_back(a[i] + b[i]);
      want = rounded(std::move(want), stream);
      for_each_path([&](Path& path) {
        Arena arena(path.backend->device());
        const Tensor x = arena.floats(a, {3, 40}, stream);
        path.backend->ops().add({.a = x, .b = arena.floats(b, {3, 40}, added), .out = x});
        EXPECT_EQ(arena.read(x), want);
      });
    }
}

// Into columns of wider rows, from either dtype to either.
TEST(Scale, FactorOfTheCheckpointAndConversion) {
  Random random(19);
  for (const DType from : kComputes)
    for (const DType to : kComputes) {
      const std::vector<float> x = rounded(random.normals(4 * 24), from);
      std::vector<double> want;
      for (const float v : x) want.push_back(-1.375 * 0.5 * static_cast<double>(v));
      for_each_path([&](Path& path) {
        Arena arena(path.backend->device());
        const Tensor wide = arena.floats(std::vector<float>(4 * 40, 7.0f), {4, 40}, to);
        path.backend->ops().scale({.x = arena.floats(x, {4, 24}, from),
                                   .weight = arena.floats(std::vector<float>{-1.375f}, {1}),
                                   .factor = 0.5f,
                                   .soft_cap = 0.0f,
                                   .out = wide.columns(8, 24)});
        const std::vector<float> out = arena.read(wide);
        std::vector<float> inner;
        for (std::size_t i = 0; i < out.size(); ++i) {
          if (i % 40 >= 8 && i % 40 < 32)
            inner.push_back(out[i]);
          else
            EXPECT_EQ(out[i], 7.0f);
        }
        expect_close("scale", inner, want, 24, 2e-6, to);
      });
    }
}

TEST(Scale, FactorAndSoftCap) {
  Random random(9);
  for (const DType compute : kComputes)
    for (const float cap : {0.0f, 30.0f}) {
      std::vector<float> x = rounded(random.normals(4 * 50, 40.0f), compute);
      x[3] = 1e30f;
      x = rounded(std::move(x), compute);
      std::vector<double> want;
      for (const float v : x)
        want.push_back(cap > 0 ? cap * std::tanh(0.7f * static_cast<double>(v) / cap) : 0.7f * static_cast<double>(v));
      for_each_path([&](Path& path) {
        Arena arena(path.backend->device());
        const Tensor rows = arena.floats(x, {4, 50}, compute);
        path.backend->ops().scale({.x = rows, .weight = {}, .factor = 0.7f, .soft_cap = cap, .out = rows});
        expect_close("scale", arena.read(rows), want, 50, 2e-6, compute);
      });
    }
}

// A choice of many tokens among many experts, heads of many tokens: more rows than 16 bits count.
TEST(Rows, AsManyAsAStepHas) {
  constexpr std::int64_t kRows = 70000, kWidth = 3;
  Random random(12);
  const std::vector<float> x = random.normals(kRows * kWidth);
  std::vector<std::int32_t> backwards;
  std::vector<double> scaled, turned, doubled, gated;
  for (std::int64_t r = 0; r < kRows; ++r) {
    backwards.push_back(static_cast<std::int32_t>(kRows - 1 - r));
    for (std::int64_t i = 0; i < kWidth; ++i) {
      const double number = x[static_cast<std::size_t>(r * kWidth + i)];
      scaled.push_back(3.0 * number);
      turned.push_back(x[static_cast<std::size_t>((kRows - 1 - r) * kWidth + i)]);
      doubled.push_back(2.0 * number);
      gated.push_back(number * number / (1.0 + std::exp(-number)));
    }
  }
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    Ops& ops = path.backend->ops();
    const Tensor rows = arena.floats(x, {kRows, kWidth});
    const auto expect = [&](const char* name, const std::vector<double>& want, const auto& compute) {
      const Tensor out = arena.blank({kRows, kWidth});
      compute(out);
      expect_close(name, arena.read(out), want, kWidth, 4e-6);
    };
    expect("scale", scaled,
           [&](const Tensor& out) { ops.scale({.x = rows, .weight = {}, .factor = 3.0f, .out = out}); });
    expect("gather", turned,
           [&](const Tensor& out) { ops.gather({.x = rows, .index = arena.ints(backwards, {kRows}), .out = out}); });
    expect("add", doubled, [&](const Tensor& out) { ops.add({.a = rows, .b = rows, .out = out}); });
    expect("gated_activation", gated, [&](const Tensor& out) {
      ops.gated_activation({.gate = rows, .up = rows, .kind = Activation::silu, .out = out});
    });
  });
}

TEST(Absmax, RaisesButNeverLowersAndPassesOverNan) {
  std::vector<float> x(4 * 3 * 20, 0.5f);
  x[0 * 60 + 20 + 7] = -9.0f;          // head 1
  x[3 * 60 + 40 + 19] = 4.0f;          // head 2
  x[2 * 60 + 40 + 3] = std::nanf("");  // head 2
  const std::vector<float> before = {0.75f, 1.0f, 1.0f};
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const Tensor out = arena.floats(before, {3});
    path.backend->ops().absmax({.x = arena.floats(x, {4, 3, 20}), .out = out});
    EXPECT_EQ(arena.read(out), (std::vector<float>{0.75f, 9.0f, 4.0f}));
  });
}

}  // namespace
}  // namespace octavo::conformance
