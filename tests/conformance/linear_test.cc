// linear over every weight dtype and grain of scale, against sums in double of numbers unpacked by the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tensor/float8.h"
#include "tests/conformance/host_weights.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

// What a product of e4m3 codes sees of x: each row, or each 128 columns of it, rounded by its own scale.
std::vector<float> rounded_inputs(std::vector<float> x, std::int64_t in, ScaleGrain grain, std::optional<float> given) {
  const auto span = static_cast<std::size_t>(grain == ScaleGrain::block ? 128 : in);
  for (std::size_t begin = 0; begin < x.size(); begin += span) {
    float amax = 0.0f;
    for (std::size_t i = begin; i < begin + span; ++i) amax = std::max(amax, std::fabs(x[i]));
    const float scale = given.value_or(amax > 0 ? amax / 448.0f : 1.0f);
    for (std::size_t i = begin; i < begin + span; ++i) x[i] = f32_from_e4m3(e4m3_from_f32(x[i] / scale)) * scale;
  }
  return x;
}

struct LinearCase {
  std::vector<HostPart> parts;
  std::int64_t tokens = 1;
  DType compute = DType::f32;
  DType result = DType::f32;
  bool biased = false;
};

// A GPU computes few rows from the packed numbers, unless each row must come out the same in any company.
bool takes_products(const Path& path, const LinearCase& c) {
  return !path.processor && (c.tokens > 8 || path.deterministic);
}

// A GPU with a product of e4m3 for these scales takes it where rows are many.
bool may_round_inputs(const Path& path, const LinearCase& c) {
  return takes_products(path, c) && c.compute == DType::bf16 && c.parts.size() == 1 &&
         c.parts[0].dtype == DType::e4m3 && c.parts[0].grain != ScaleGrain::block;
}

void run_linear(const LinearCase& c, const std::string& name) {
  Random random(17);
  const std::int64_t in = c.parts[0].in;
  std::int64_t out = 0;
  for (const HostPart& part : c.parts) out += part.out;
  const std::vector<float> x = rounded(random.normals(c.tokens * in), c.compute);
  const std::vector<float> bias = c.biased ? random.normals(out) : std::vector<float>();
  const std::vector<double> want = product(c.parts, x, bias);
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const Weight weight = upload(arena, c.parts);
    // Rows of x and out lie in wider ones, so that strides matter and a write beside the result shows.
    std::vector<float> padded;
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      padded.insert(padded.end(), 8, std::nanf(""));
      padded.insert(padded.end(), x.begin() + t * in, x.begin() + (t + 1) * in);
      padded.insert(padded.end(), 16, std::nanf(""));
    }
    const Tensor inputs = arena.floats(padded, {c.tokens, in + 24}, c.compute).columns(8, in);
    const Tensor wide_out = arena.blank({c.tokens, out + 16}, c.result);
    const Tensor result = wide_out.columns(8, out);
    path.backend->ops().linear(
        {.x = inputs, .weight = weight, .bias = c.biased ? arena.floats(bias, {out}) : Tensor(), .out = result});
    // A GPU rounds packed numbers to bf16 once where rows are many: 2^-9 of each number at most, and a row may cancel.
    const double sums = path.processor ? 3e-6 : takes_products(path, c) ? 1.6e-2 : 2e-3;
    // A row of one number may cancel to almost nothing: then the numbers of all tokens are the measure.
    const std::int64_t row = out == 1 ? c.tokens : out;
    const std::vector<float> got = arena.read(result);
    if (may_round_inputs(path, c) && row_error(got, want, row, c.result) > sums)
      expect_close(name + ", inputs rounded", got, product(c.parts, rounded_inputs(x, in, c.parts[0].grain, {}), bias),
                   row, sums, c.result);
    else
      expect_close(name, got, want, row, sums, c.result);
    for (const std::int64_t column : {std::int64_t{0}, out + 8})
      for (const float beside : arena.read(wide_out.columns(column, 8))) EXPECT_TRUE(std::isnan(beside)) << name;
  });
}

TEST(Linear, EveryWeightKindShapeAndTail) {
  for (const WeightKind& kind : all_weight_kinds()) {
    Random random(3);
    std::vector<std::pair<std::int64_t, std::int64_t>> shapes = {{1, 32}, {5, 96}, {33, 576}, {48, 64}, {19, 1504}};
    if (!is_block_type(kind.dtype)) shapes.insert(shapes.end(), {{7, 1}, {17, 100}, {8, 63}});
    if (dtype_info(kind.dtype).block_elems == 256) shapes = {{1, 256}, {5, 768}, {33, 512}, {19, 2816}};
    for (const auto& [out, in] : shapes)
      for (const std::int64_t tokens : {1, 2, 7, 64}) {
        const DType compute = tokens % 2 == 0 ? DType::bf16 : DType::f32;
        const DType result = tokens == 2 ? DType::bf16 : DType::f32;
        run_linear({{make_part(kind.dtype, kind.grain, out, in, random)}, tokens, compute, result, tokens != 1},
                   std::string(kind.name) + " " + std::to_string(out) + "x" + std::to_string(in) + ", " +
                       std::to_string(tokens) + " tokens");
      }
  }
}

TEST(Linear, PartsKeepTheirOwnKindAndScale) {
  Random random(4);
  LinearCase c;
  for (const WeightKind& kind : kWeightKinds) c.parts.push_back(make_part(kind.dtype, kind.grain, 21, 768, random));
  c.tokens = 9;
  c.biased = true;
  run_linear(c, "eleven parts");
  c.parts.clear();
  for (const WeightKind& kind : kLargeKinds) c.parts.push_back(make_part(kind.dtype, kind.grain, 21, 768, random));
  run_linear(c, "three parts of large blocks");
}

// e4m3 weights as checkpoints have them, with e4m3 inputs where the hardware has such a product: scales of tensor, row
// or 128 x 128, one static scale of inputs or dynamic ones, several parts that lie side by side with a scale each,
// edges of blocks, a bias, and numbers of tokens that fill no vector. Inputs of very different size row by row and
// block by block show a scale that is applied in the wrong place.
struct RoundedCase {
  ScaleGrain grain;
  std::vector<std::int64_t> outs;
  std::int64_t in, tokens;
  std::optional<float> input_scale;
  bool biased;
};

void run_rounded(const RoundedCase& c, const std::string& name) {
  Random random(23);
  std::vector<HostPart> parts;
  std::int64_t out = 0;
  for (const std::int64_t rows : c.outs) {
    HostPart part = make_part(DType::e4m3, ScaleGrain::none, rows, c.in, random);
    part.grain = c.grain;
    part.block_rows = part.block_cols = 128;
    part.scale_rows = c.grain == ScaleGrain::block ? (rows + 127) / 128 : c.grain == ScaleGrain::channel ? rows : 1;
    part.scale_cols = c.grain == ScaleGrain::block ? (c.in + 127) / 128 : 1;
    for (std::int64_t i = 0; i < part.scale_rows * part.scale_cols; ++i)
      part.scale.push_back(0.002f * static_cast<float>(std::exp2(4 * random.uniform())));
    for (std::int64_t i = 0; i < rows * c.in; ++i)
      part.values[static_cast<std::size_t>(i)] *= scale_at(part, i / c.in, i % c.in);
    parts.push_back(std::move(part));
    out += rows;
  }
  std::vector<float> x = random.normals(c.tokens * c.in);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(c.in);
    x[i] *= std::exp2f(static_cast<float>(row % 7) - 3.0f);
    if (c.grain == ScaleGrain::block)
      x[i] *= std::exp2f(static_cast<float>(i % static_cast<std::size_t>(c.in) / 128 % 5));
  }
  x = rounded(std::move(x), DType::bf16);
  const std::vector<float> bias = c.biased ? random.normals(out) : std::vector<float>();
  const std::vector<double> exact = product(parts, x, bias);
  const std::vector<double> want = product(parts, rounded_inputs(x, c.in, c.grain, c.input_scale), bias);
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    std::vector<std::byte> all;  // parts side by side, as a loader places them
    for (const HostPart& part : parts) all.insert(all.end(), part.bytes.begin(), part.bytes.end());
    const Tensor stacked = arena.bytes(all, DType::e4m3, {out, c.in});
    Weight weight = upload(arena, parts);
    std::int64_t row = 0;
    for (WeightPart& part : weight.parts) {
      const std::int64_t rows = part.values.size(0);
      part.values = stacked.rows(row, rows);
      row += rows;
    }
    if (c.input_scale) {
      const Tensor given = arena.floats(std::vector<float>{*c.input_scale}, {1});
      for (WeightPart& part : weight.parts) part.input_scale = given;
    }
    const Tensor result = arena.blank({c.tokens, out + 16}, DType::bf16).columns(8, out);
    path.backend->ops().linear({.x = arena.floats(x, {c.tokens, c.in}, DType::bf16),
                                .weight = weight,
                                .bias = c.biased ? arena.floats(bias, {out}) : Tensor(),
                                .out = result});
    const std::vector<float> got = arena.read(result);
    // Hopper has all three products; elsewhere the weights may be used at their exact values instead.
    const bool hopper = path.backend->device().describe().find("compute capability 9.0") != std::string::npos;
    if (hopper || (!path.processor && row_error(got, exact, out, DType::bf16) > 1.6e-2))
      expect_close(name + ", inputs rounded", got, want, out, 2e-3, DType::bf16);
    else
      expect_close(name, got, exact, out, path.processor ? 3e-6 : 1.6e-2, DType::bf16);
  });
}

TEST(Linear, Fp8ProductsRoundTheirInputsByTheFormatsScales) {
  const auto none = std::optional<float>();
  run_rounded({ScaleGrain::tensor, {64}, 128, 9, none, false}, "tensor, dynamic");
  run_rounded({ScaleGrain::tensor, {192}, 576, 64, 0.05f, true}, "tensor, static");
  run_rounded({ScaleGrain::tensor, {96, 32, 48}, 256, 33, none, false}, "tensor, three parts");
  run_rounded({ScaleGrain::channel, {256}, 512, 130, none, false}, "channel");
  run_rounded({ScaleGrain::channel, {64, 32, 32}, 128, 16, none, true}, "channel, three parts, bias");
  run_rounded({ScaleGrain::block, {256}, 512, 64, none, false}, "blocks");
  run_rounded({ScaleGrain::block, {256, 128, 128}, 640, 61, none, false}, "blocks, three parts, padded tokens");
  run_rounded({ScaleGrain::block, {208}, 384, 13, none, true}, "blocks, an edge and a bias");
}

TEST(Linear, NoTokens) {
  Random random(4);
  run_linear({{make_part(DType::q4_1, ScaleGrain::none, 8, 64, random)}, 0}, "none");
}

// Deterministic: the same row alone, in a batch of 7 and in one of 64 gives the same bits, at any place in it.
TEST(Linear, BatchDoesNotChangeBits) {
  for (const WeightKind& kind : all_weight_kinds()) {
    Random random(5);
    const std::int64_t out = 37, in = 768;
    const HostPart part = make_part(kind.dtype, kind.grain, out, in, random);
    const std::vector<float> x = random.normals(64 * in);
    for_each_path([&](Path& path) {
      if (!path.deterministic) return;
      Arena arena(path.backend->device());
      const Weight weight = upload(arena, {part});
      const Tensor all = arena.floats(x, {64, in}, path.processor ? DType::f32 : DType::bf16);
      const auto run = [&](std::int64_t begin, std::int64_t count) {
        const Tensor result = arena.blank({count, out});
        path.backend->ops().linear({.x = all.rows(begin, count), .weight = weight, .bias = {}, .out = result});
        return arena.read(result);
      };
      const std::vector<float> whole = run(0, 64);
      for (const auto& [begin, count] : {std::pair{0, 1}, {5, 1}, {63, 1}, {0, 7}, {3, 7}, {40, 2}, {31, 33}}) {
        const std::vector<float> part_of = run(begin, count);
        EXPECT_TRUE(std::equal(part_of.begin(), part_of.end(), whole.begin() + begin * out))
            << kind.name << " rows " << begin << " + " << count;
      }
    });
  }
}

}  // namespace
}  // namespace octavo::conformance
