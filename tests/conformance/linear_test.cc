// linear and grouped_linear over every weight dtype and grain of scale, against sums in double of numbers unpacked
// here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tensor/float8.h"
#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

// A weight part as bytes, and the same in double.
struct HostPart {
  DType dtype = DType::f32;
  ScaleGrain grain = ScaleGrain::none;
  std::int64_t out = 0, in = 0;
  std::vector<std::byte> bytes = {};
  std::vector<float> scale = {};
  std::int64_t scale_rows = 0, scale_cols = 0;
  int block_rows = 0, block_cols = 0;
  std::vector<double> values = {};
};

void append(std::vector<std::byte>& bytes, const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  bytes.insert(bytes.end(), from, from + size);
}

void append_half(std::vector<std::byte>& bytes, float x, double& exact) {
  const std::uint16_t bits = f16_from_f32(x);
  exact = f32_from_f16(bits);
  append(bytes, &bits, sizeof bits);
}

// One block of 32 with random numbers, as GGUF packs it.
void append_block(HostPart& part, Random& random) {
  double d = 0.0;
  double m = 0.0;
  append_half(part.bytes, 0.01f + 0.02f * std::fabs(random.normal()), d);
  if (part.dtype == DType::q4_1) append_half(part.bytes, 0.1f * random.normal(), m);
  double numbers[32];
  if (part.dtype == DType::q8_0) {
    for (double& number : numbers) {
      const auto q = static_cast<std::int8_t>(random.below(256) - 128);
      append(part.bytes, &q, 1);
      number = d * q;
    }
    part.values.insert(part.values.end(), numbers, numbers + 32);
    return;
  }
  for (int i = 0; i < 16; ++i) {
    const int low = random.below(16);
    const int high = random.below(16);
    const auto pair = static_cast<std::uint8_t>(low | high << 4);
    append(part.bytes, &pair, 1);
    const int zero = part.dtype == DType::q4_0 ? 8 : 0;
    numbers[i] = d * (low - zero) + m;
    numbers[i + 16] = d * (high - zero) + m;
  }
  part.values.insert(part.values.end(), numbers, numbers + 32);
}

void append_number(HostPart& part, float x) {
  switch (part.dtype) {
    case DType::f32:
      append(part.bytes, &x, 4);
      part.values.push_back(x);
      return;
    case DType::f16:
    case DType::bf16: {
      const std::uint16_t bits = part.dtype == DType::f16 ? f16_from_f32(x) : bf16_from_f32(x);
      append(part.bytes, &bits, 2);
      part.values.push_back(part.dtype == DType::f16 ? f32_from_f16(bits) : f32_from_bf16(bits));
      return;
    }
    default: {
      const std::uint8_t code = e4m3_from_f32(x * 64);
      append(part.bytes, &code, 1);
      part.values.push_back(f32_from_e4m3(code));
    }
  }
}

double scale_at(const HostPart& part, std::int64_t row, std::int64_t column) {
  switch (part.grain) {
    case ScaleGrain::none:
      return 1.0;
    case ScaleGrain::tensor:
      return part.scale[0];
    case ScaleGrain::channel:
      return part.scale[static_cast<std::size_t>(row)];
    case ScaleGrain::block:
      return part.scale[static_cast<std::size_t>(row / part.block_rows * part.scale_cols + column / part.block_cols)];
  }
  return 0.0;
}

HostPart make_part(DType dtype, ScaleGrain grain, std::int64_t out, std::int64_t in, Random& random) {
  HostPart part{.dtype = dtype, .grain = grain, .out = out, .in = in};
  for (std::int64_t i = 0; i < out * in / dtype_info(dtype).block_elems; ++i) {
    if (is_block_type(dtype))
      append_block(part, random);
    else
      append_number(part, random.normal() * 0.1f);
  }
  part.block_rows = 16;
  part.block_cols = 48;
  part.scale_rows = grain == ScaleGrain::block ? (out + 15) / 16 : grain == ScaleGrain::channel ? out : 1;
  part.scale_cols = grain == ScaleGrain::block ? (in + 47) / 48 : 1;
  for (std::int64_t i = 0; grain != ScaleGrain::none && i < part.scale_rows * part.scale_cols; ++i)
    part.scale.push_back(0.003f * static_cast<float>(1.0 + 7.0 * random.uniform()));
  for (std::int64_t i = 0; i < out * in; ++i)
    part.values[static_cast<std::size_t>(i)] *= scale_at(part, i / in, i % in);
  return part;
}

Weight upload(Arena& arena, const std::vector<HostPart>& parts) {
  Weight weight;
  for (const HostPart& host : parts) {
    WeightPart part;
    part.values = arena.bytes(host.bytes, host.dtype, {host.out, host.in});
    part.grain = host.grain;
    part.block_rows = host.block_rows;
    part.block_cols = host.block_cols;
    if (host.grain == ScaleGrain::block)
      part.scale = arena.floats(host.scale, {host.scale_rows, host.scale_cols});
    else if (host.grain != ScaleGrain::none)
      part.scale = arena.floats(host.scale, {host.scale_rows});
    weight.parts.push_back(part);
    weight.out += host.out;
    weight.in = host.in;
  }
  return weight;
}

// x [rows, in] times all parts, plus bias: [rows, out].
std::vector<double> product(const std::vector<HostPart>& parts, const std::vector<float>& x,
                            const std::vector<float>& bias) {
  const std::int64_t in = parts[0].in;
  std::vector<double> result;
  for (std::size_t row = 0; row < x.size() / static_cast<std::size_t>(in); ++row) {
    std::size_t output = 0;
    for (const HostPart& part : parts)
      for (std::int64_t o = 0; o < part.out; ++o, ++output) {
        double sum = bias.empty() ? 0.0 : bias[output];
        for (std::int64_t i = 0; i < in; ++i)
          sum += static_cast<double>(x[row * static_cast<std::size_t>(in) + static_cast<std::size_t>(i)]) *
                 part.values[static_cast<std::size_t>(o * in + i)];
        result.push_back(sum);
      }
  }
  return result;
}

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

struct Kind {
  const char* name;
  DType dtype;
  ScaleGrain grain;
};
const Kind kKinds[] = {
    {"f32", DType::f32, ScaleGrain::none},
    {"f16", DType::f16, ScaleGrain::none},
    {"bf16", DType::bf16, ScaleGrain::none},
    {"e4m3 tensor", DType::e4m3, ScaleGrain::tensor},
    {"e4m3 channel", DType::e4m3, ScaleGrain::channel},
    {"e4m3 block", DType::e4m3, ScaleGrain::block},
    {"q4_0", DType::q4_0, ScaleGrain::none},
    {"q4_1", DType::q4_1, ScaleGrain::none},
    {"q8_0", DType::q8_0, ScaleGrain::none},
};

TEST(Linear, EveryWeightKindShapeAndTail) {
  for (const Kind& kind : kKinds) {
    Random random(3);
    std::vector<std::pair<std::int64_t, std::int64_t>> shapes = {{1, 32}, {5, 96}, {33, 576}, {48, 64}, {19, 1504}};
    if (!is_block_type(kind.dtype)) shapes.insert(shapes.end(), {{7, 1}, {17, 100}, {8, 63}});
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
  for (const Kind& kind : kKinds) c.parts.push_back(make_part(kind.dtype, kind.grain, 21, 576, random));
  c.tokens = 9;
  c.biased = true;
  run_linear(c, "nine parts");
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
  for (const Kind& kind : kKinds) {
    Random random(5);
    const std::int64_t out = 37, in = 576;
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

struct GroupedCase {
  Kind kind;
  std::int64_t tokens, k, experts, out, in;
  bool row_of_choice, biased, summed;
};

void run_grouped(const GroupedCase& c) {
  Random random(11);
  std::vector<HostPart> experts;
  for (std::int64_t e = 0; e < c.experts; ++e)
    experts.push_back(make_part(c.kind.dtype, c.kind.grain, c.out, c.in, random));
  const std::vector<float> x = random.normals((c.row_of_choice ? c.tokens * c.k : c.tokens) * c.in);
  const std::vector<float> bias = random.normals(c.experts * c.out);
  const std::vector<float> weights = random.normals(c.tokens * c.k);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < c.tokens; ++i) {
    const std::int32_t first = random.below(static_cast<std::int32_t>(c.experts));
    for (std::int64_t j = 0; j < c.k; ++j) ids.push_back(static_cast<std::int32_t>((first + j * 3) % c.experts));
  }
  std::vector<double> want(static_cast<std::size_t>((c.summed ? c.tokens : c.tokens * c.k) * c.out), 0.0);
  for (std::int64_t i = 0; i < c.tokens * c.k; ++i) {
    const auto expert = static_cast<std::size_t>(ids[static_cast<std::size_t>(i)]);
    const std::int64_t row = c.row_of_choice ? i : i / c.k;
    const std::vector<float> input(x.begin() + row * c.in, x.begin() + (row + 1) * c.in);
    const auto bias_at = bias.begin() + static_cast<std::ptrdiff_t>(expert) * c.out;
    const std::vector<double> y = product(
        {experts[expert]}, input, c.biased ? std::vector<float>(bias_at, bias_at + c.out) : std::vector<float>());
    for (std::int64_t o = 0; o < c.out; ++o)
      want[static_cast<std::size_t>((c.summed ? i / c.k : i) * c.out + o)] +=
          y[static_cast<std::size_t>(o)] * (c.summed ? weights[static_cast<std::size_t>(i)] : 1.0f);
  }
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    std::vector<Weight> uploaded;
    for (const HostPart& expert : experts) uploaded.push_back(upload(arena, {expert}));
    const Tensor result = arena.blank({c.summed ? c.tokens : c.tokens * c.k, c.out});
    path.backend->ops().grouped_linear({.x = arena.floats(x, {c.row_of_choice ? c.tokens * c.k : c.tokens, c.in}),
                                        .experts = uploaded,
                                        .bias = c.biased ? arena.floats(bias, {c.experts, c.out}) : Tensor(),
                                        .ids = arena.ints(ids, {c.tokens, c.k}),
                                        .weights = c.summed ? arena.floats(weights, {c.tokens, c.k}) : Tensor(),
                                        .out = result});
    expect_close(c.kind.name, arena.read(result), want, c.out, path.processor ? 5e-6 : 4e-3);
  });
}

TEST(GroupedLinear, ChoicesWeightsAndBias) {
  for (const Kind& kind : kKinds) run_grouped({kind, 6, 2, 8, 24, 96, false, true, true});
  run_grouped({kKinds[2], 1, 4, 4, 32, 64, false, false, false});
  run_grouped({kKinds[2], 13, 3, 5, 40, 64, true, true, true});
  run_grouped({kKinds[7], 13, 3, 5, 40, 64, true, false, false});
}

// Experts that come to lie where others were: their numbers count, not the address.
TEST(GroupedLinear, OtherExpertsAtTheSameAddress) {
  Random random(12);
  const std::vector<float> x = random.normals(64);
  const std::vector<HostPart> first = {make_part(DType::bf16, ScaleGrain::none, 32, 64, random)};
  const std::vector<HostPart> second = {make_part(DType::q8_0, ScaleGrain::none, 32, 64, random)};
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    std::vector<Weight> experts(1);
    for (const std::vector<HostPart>& parts : {first, second, first}) {
      experts[0] = upload(arena, parts);
      for (int again = 0; again < 2; ++again) {
        const Tensor result = arena.blank({1, 32});
        path.backend->ops().grouped_linear({.x = arena.floats(x, {1, 64}),
                                            .experts = experts,
                                            .bias = {},
                                            .ids = arena.ints(std::vector<std::int32_t>{0}, {1, 1}),
                                            .weights = {},
                                            .out = result});
        expect_close("one expert", arena.read(result), product(parts, x, {}), 32, path.processor ? 5e-6 : 4e-3);
      }
    }
  });
}

}  // namespace
}  // namespace octavo::conformance
