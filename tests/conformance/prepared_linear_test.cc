// linear over weights that a wing was asked to prepare: what is computed in whole numbers stays as close to the product
// as 16 bits for the largest of each 32 inputs allow, whatever their sizes, and the same in any company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/backend.h"
#include "tests/conformance/host_weights.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

constexpr std::int64_t kGroup = 32;
constexpr DType kKinds[] = {DType::q4_0, DType::q4_1, DType::q8_0};

// The path that makes a form of such weights, alone and deterministic, where the processor has it.
void for_each_prepared(const std::vector<HostPart>& parts, const std::function<void(Backend&, const Weight&)>& body) {
  for (const bool deterministic : {false, true}) {
    if (cpu::best_isa() < cpu::Isa::avx512vnni) return;
    auto backend = cpu::make_backend({.num_threads = 2, .isa = cpu::Isa::avx512vnni, .deterministic = deterministic});
    ASSERT_TRUE(backend);
    Arena arena((*backend)->device());
    Weight weight = upload(arena, parts);
    ASSERT_TRUE((*backend)->prepare(weight, DType::bf16));
    ASSERT_NE(weight.form, nullptr);
    body(**backend, weight);
  }
}

// How far result (t, o) may lie from the product.
double bound(const HostPart& part, const std::vector<float>& x, std::int64_t t, std::int64_t o, double want,
             DType result) {
  double sum = 0;
  for (std::int64_t first = 0; first < part.in; first += kGroup) {
    double most = 0, weights = 0;
    for (std::int64_t k = first; k < first + kGroup; ++k) {
      const double number = std::fabs(static_cast<double>(x[static_cast<std::size_t>(t * part.in + k)]));
      const double weight = std::fabs(part.values[static_cast<std::size_t>(o * part.in + k)]);
      most = std::max(most, number);
      weights += weight;
      sum += 2e-6 * number * weight;
    }
    sum += std::ldexp(most, -14) * weights;  // one unit of the largest number's 16 bits
  }
  return sum + (result == DType::bf16 ? std::ldexp(std::fabs(want), -8) : 0.0) + 1e-30;
}

void expect_product(const HostPart& part, const std::vector<float>& x, std::int64_t tokens, bool biased, DType result) {
  Random random(29);
  const std::vector<float> bias = biased ? random.normals(part.out) : std::vector<float>();
  const std::vector<double> want = product({part}, x, bias);
  for_each_prepared({part}, [&](Backend& backend, const Weight& weight) {
    Arena arena(backend.device());
    std::vector<float> padded;  // rows within wider ones
    for (std::int64_t t = 0; t < tokens; ++t) {
      padded.insert(padded.end(), 8, std::nanf(""));
      padded.insert(padded.end(), x.begin() + t * part.in, x.begin() + (t + 1) * part.in);
    }
    const Tensor inputs = arena.floats(padded, {tokens, part.in + 8}, DType::bf16).columns(8, part.in);
    const Tensor wide = arena.blank({tokens, part.out + 16}, result);
    const Tensor out = wide.columns(8, part.out);
    backend.ops().linear(
        {.x = inputs, .weight = weight, .bias = biased ? arena.floats(bias, {part.out}) : Tensor(), .out = out});
    const std::vector<float> got = arena.read(out);
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t o = 0; o < part.out; ++o) {
        const auto at = static_cast<std::size_t>(t * part.out + o);
        const double allowed = bound(part, x, t, o, want[at], result);
        if (std::fabs(got[at] - want[at]) <= allowed) continue;
        FAIL() << dtype_info(part.dtype).name << " " << part.out << "x" << part.in << ", " << tokens << " tokens: " << t
               << ", " << o << " is " << got[at] << " instead of " << want[at] << " +- " << allowed;
      }
    for (const std::int64_t column : {std::int64_t{0}, part.out + 8})
      for (const float beside : arena.read(wide.columns(column, 8))) EXPECT_TRUE(std::isnan(beside));
  });
}

TEST(PreparedLinear, EveryKindShapeAndNumberOfRows) {
  for (const DType kind : kKinds) {
    Random random(31);
    for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{16, 32}, {48, 576}, {80, 1536}})
      for (const std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 8, in == 32 ? 130 : 9})
        expect_product(make_part(kind, ScaleGrain::none, out, in, random),
                       rounded(random.normals(tokens * in), DType::bf16), tokens, tokens % 2 == 0,
                       tokens % 3 == 0 ? DType::bf16 : DType::f32);
  }
}

TEST(PreparedLinear, InputsOfVeryDifferentSizes) {
  for (const DType kind : kKinds) {
    Random random(37);
    const std::int64_t tokens = 9, in = 256;
    std::vector<float> x = random.normals(tokens * in);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % 29 == 3) x[i] *= 3000.0f;     // lone large ones
      if (i / 32 % 5 == 1) x[i] *= 1e-30f;  // groups that hardly count
      if (i / 32 % 5 == 2) x[i] = 0.0f;
      if (i / 32 % 7 == 6) x[i] *= 1e30f;
      if (i % 61 == 0) x[i] = std::copysign(1.9921875f, x[i]);  // all bits of a bf16
      if (i / 32 % 11 == 9) x[i] = std::numeric_limits<float>::denorm_min();
    }
    expect_product(make_part(kind, ScaleGrain::none, 32, in, random), rounded(std::move(x), DType::bf16), tokens, true,
                   DType::f32);
  }
}

TEST(PreparedLinear, NumbersThatAreNotFiniteSpoilTheirRowAlone) {
  for (const DType kind : kKinds)
    for (const float bad : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      Random random(41);
      const HostPart part = make_part(kind, ScaleGrain::none, 32, 96, random);
      std::vector<float> x = random.normals(10 * 96);
      x[3 * 96 + 40] = bad;
      for_each_prepared({part}, [&](Backend& backend, const Weight& weight) {
        Arena arena(backend.device());
        const Tensor out = arena.blank({10, 32});
        backend.ops().linear({.x = arena.floats(x, {10, 96}, DType::bf16), .weight = weight, .bias = {}, .out = out});
        const std::vector<float> got = arena.read(out);
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isfinite(got[i]), i / 32 != 3) << i;
      });
    }
}

TEST(PreparedLinear, CompanyDoesNotChangeBits) {
  for (const DType kind : kKinds) {
    Random random(43);
    const std::int64_t out = 48, in = 768;
    const HostPart part = make_part(kind, ScaleGrain::none, out, in, random);
    const std::vector<float> x = random.normals(150 * in);
    for_each_prepared({part}, [&](Backend& backend, const Weight& weight) {
      Arena arena(backend.device());
      const Tensor all = arena.floats(x, {150, in}, DType::bf16);
      const auto run = [&](std::int64_t begin, std::int64_t count) {
        const Tensor result = arena.blank({count, out});
        backend.ops().linear({.x = all.rows(begin, count), .weight = weight, .bias = {}, .out = result});
        return arena.read(result);
      };
      const std::vector<float> whole = run(0, 150);
      for (const auto& [begin, count] : {std::pair{0, 1}, {5, 1}, {149, 1}, {0, 7}, {3, 12}, {40, 2}, {17, 133}}) {
        const std::vector<float> some = run(begin, count);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), whole.begin() + begin * out)) << begin << " + " << count;
      }
    });
  }
}

TEST(PreparedLinear, PartsOfSeveralKindsAndWhatIsNotPrepared) {
  Random random(47);
  std::vector<HostPart> parts;
  for (const DType kind : kKinds) parts.push_back(make_part(kind, ScaleGrain::none, 32, 96, random));
  const std::vector<float> x = rounded(random.normals(3 * 96), DType::bf16);
  const std::vector<double> want = product(parts, x, {});
  for_each_prepared(parts, [&](Backend& backend, const Weight& weight) {
    Arena arena(backend.device());
    const Tensor out = arena.blank({3, 96});
    backend.ops().linear({.x = arena.floats(x, {3, 96}, DType::bf16), .weight = weight, .bias = {}, .out = out});
    expect_close("bf16", arena.read(out), want, 96, 3e-5, DType::f32);
    // Float32 inputs keep all their bits.
    const Tensor exact = arena.blank({3, 96});
    backend.ops().linear({.x = arena.floats(x, {3, 96}), .weight = weight, .bias = {}, .out = exact});
    expect_close("f32", arena.read(exact), want, 96, 3e-6, DType::f32);
  });
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    for (const DType kind : {DType::q4_1, DType::bf16}) {  // a row too many, and a kind that has no such form
      Weight weight = upload(arena, {make_part(kind, ScaleGrain::none, kind == DType::bf16 ? 32 : 33, 96, random)});
      ASSERT_TRUE(path.backend->prepare(weight, DType::bf16));
      EXPECT_EQ(weight.form, nullptr);
    }
    Weight weight = upload(arena, {make_part(DType::q4_1, ScaleGrain::none, 32, 96, random)});
    ASSERT_TRUE(path.backend->prepare(weight, DType::f32));
    EXPECT_EQ(weight.form, nullptr);
  });
}

}  // namespace
}  // namespace octavo::conformance
