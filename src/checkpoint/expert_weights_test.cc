// Experts in every form that checkpoints have: which numbers each rank gets, and what is refused by which name.

#include <gtest/gtest.h>

#include <numeric>

#include "checkpoint/binder.h"
#include "checkpoint/test_files.h"
#include "checkpoint/weight_meter.h"
#include "tensor/float8.h"

namespace octavo {
namespace {

using namespace octavo::testing;

constexpr std::int64_t kIn = 6, kWidth = 4;  // of gate and up

struct ExpertFile {
  TemporaryDirectory directory;
  Checkpoint checkpoint;
  HostDevice device;
  std::unique_ptr<CheckpointBinder> binder;

  explicit ExpertFile(const std::vector<MadeTensor>& tensors, RankOf rank = {}, NameMap names = {}) {
    directory.write("config.json", "{}");
    directory.write("model.safetensors", safetensors_bytes(tensors));
    checkpoint = *Checkpoint::open(directory.path());
    binder = std::make_unique<CheckpointBinder>(checkpoint, Quantization(), std::move(names), device, rank);
  }
  Result<std::vector<Weight>> experts(const ExpertsRequest& request) {
    std::vector<Weight> target;
    OCTAVO_TRY(binder->experts(target, request));
    return target;
  }
  std::string refusal(const ExpertsRequest& request) {
    const auto made = experts(request);
    return made ? "accepted" : made.error().message();
  }
};

ExpertsRequest gate_and_up(int count, bool transposed = false) {
  return {.prefix = "mlp.experts",
          .count = count,
          .parts = {{"gate_proj", kWidth, Cut::rows}, {"up_proj", kWidth, Cut::rows}},
          .in = kIn,
          .stacked = "gate_up_proj",
          .transposed = transposed};
}

ExpertsRequest down(int count, std::int64_t in = kWidth, bool transposed = false) {
  return {.prefix = "mlp.experts",
          .count = count,
          .parts = {{"down_proj", kIn, Cut::columns}},
          .in = in,
          .stacked = "down_proj",
          .transposed = transposed};
}

// Row r, column c of a part (0: gate, 1: up) of expert e is 1000 e + 100 part + 10 r + c.
float number(std::int64_t expert, std::int64_t part, std::int64_t row, std::int64_t column) {
  return static_cast<float>(1000 * expert + 100 * part + 10 * row + column);
}

std::vector<MadeTensor> separate_tensors(int count) {
  std::vector<MadeTensor> tensors;
  const char* names[] = {"gate_proj", "up_proj"};
  for (int e = 0; e < count; ++e)
    for (int part = 0; part < 2; ++part) {
      std::vector<float> numbers;
      for (int r = 0; r < kWidth; ++r)
        for (int c = 0; c < kIn; ++c) numbers.push_back(number(e, part, r, c));
      tensors.push_back({"mlp.experts." + std::to_string(e) + "." + names[part] + ".weight",
                         "F32",
                         {kWidth, kIn},
                         raw_list(numbers)});
    }
  return tensors;
}

MadeTensor stacked_tensor(int count, bool transposed) {
  std::vector<float> numbers;
  for (int e = 0; e < count; ++e)
    for (int i = 0; i < 2 * kWidth * kIn; ++i) {
      const std::int64_t row = transposed ? i % (2 * kWidth) : i / kIn;
      const std::int64_t column = transposed ? i / (2 * kWidth) : i % kIn;
      numbers.push_back(number(e, row / kWidth, row % kWidth, column));
    }
  const std::vector<std::int64_t> shape = transposed ? std::vector<std::int64_t>{count, kIn, 2 * kWidth}
                                                     : std::vector<std::int64_t>{count, 2 * kWidth, kIn};
  return {"mlp.experts.gate_up_proj", "F32", shape, raw_list(numbers)};
}

// Rows of gate, then of up, of this rank, whatever the form.
void expect_gate_and_up(const std::vector<Weight>& experts, int count, RankOf rank) {
  ASSERT_EQ(experts.size(), static_cast<std::size_t>(count));
  const std::int64_t rows = kWidth / rank.size;
  for (int e = 0; e < count; ++e) {
    const Weight& expert = experts[static_cast<std::size_t>(e)];
    ASSERT_EQ(expert.parts.size(), 2u);
    EXPECT_EQ(expert.out, 2 * rows);
    EXPECT_EQ(expert.in, kIn);
    for (int part = 0; part < 2; ++part)
      for (std::int64_t i = 0; i < rows * kIn; ++i)
        EXPECT_EQ(expert.parts[static_cast<std::size_t>(part)].values.data<float>()[i],
                  number(e, part, rank.rank * rows + i / kIn, i % kIn));
  }
}

TEST(Experts, SeparateStackedAndTransposedTensorsAreTheSame) {
  for (const RankOf rank : {RankOf{0, 1}, RankOf{0, 2}, RankOf{1, 2}, RankOf{3, 4}}) {
    ExpertFile separate(separate_tensors(3), rank);
    ExpertFile stacked({stacked_tensor(3, false)}, rank);
    ExpertFile transposed({stacked_tensor(3, true)}, rank);
    expect_gate_and_up(*separate.experts(gate_and_up(3)), 3, rank);
    expect_gate_and_up(*stacked.experts(gate_and_up(3)), 3, rank);
    expect_gate_and_up(*transposed.experts(gate_and_up(3, true)), 3, rank);
    EXPECT_TRUE(separate.binder->finish() && stacked.binder->finish() && transposed.binder->finish());
  }
}

TEST(Experts, ATensorOfAllForEachPart) {
  std::vector<float> gate, up;
  for (int e = 0; e < 2; ++e)
    for (int i = 0; i < kWidth * kIn; ++i) {
      gate.push_back(number(e, 0, i / kIn, i % kIn));
      up.push_back(number(e, 1, i / kIn, i % kIn));
    }
  NameMap names;
  names.file_name = [](const std::string& name) {
    return name == "mlp.experts.gate_proj" ? "ffn_gate" : name == "mlp.experts.up_proj" ? "ffn_up" : "";
  };
  ExpertFile file(
      {{"ffn_gate", "F32", {2, kWidth, kIn}, raw_list(gate)}, {"ffn_up", "F32", {2, kWidth, kIn}, raw_list(up)}},
      {1, 2}, names);
  expect_gate_and_up(*file.experts(gate_and_up(2)), 2, {1, 2});

  names.file_name = [](const std::string& name) { return name == "mlp.experts.gate_proj" ? "ffn_gate" : "ffn_none"; };
  ExpertFile half({{"ffn_gate", "F32", {2, kWidth, kIn}, raw_list(gate)}}, {}, names);
  EXPECT_NE(half.refusal(gate_and_up(2)).find("\"ffn_none\" is missing"), std::string::npos);
}

TEST(Experts, ColumnsAreCutInEveryForm) {
  std::vector<float> plain, turned;
  for (int e = 0; e < 2; ++e)
    for (int i = 0; i < kIn * kWidth; ++i) {
      plain.push_back(number(e, 0, i / kWidth, i % kWidth));
      turned.push_back(number(e, 0, i % kIn, i / kIn));
    }
  for (const bool transposed : {false, true}) {
    const std::vector<std::int64_t> shape =
        transposed ? std::vector<std::int64_t>{2, kWidth, kIn} : std::vector<std::int64_t>{2, kIn, kWidth};
    ExpertFile file({{"mlp.experts.down_proj", "F32", shape, raw_list(transposed ? turned : plain)}}, {1, 2});
    const auto experts = file.experts(down(2, kWidth, transposed));
    ASSERT_TRUE(experts) << experts.error().message();
    for (int e = 0; e < 2; ++e) {
      const Weight& expert = (*experts)[static_cast<std::size_t>(e)];
      EXPECT_EQ(expert.in, kWidth / 2);
      for (int i = 0; i < kIn * kWidth / 2; ++i)
        EXPECT_EQ(expert.parts[0].values.data<float>()[i], number(e, 0, i / 2, 2 + i % 2));
    }
  }
}

// Two experts [6, 64] in MXFP4: byte i of the blocks is i, scale i is 100 + i.
std::vector<MadeTensor> packed_tensors() {
  std::string blocks(2 * 6 * 2 * 16, '\0'), scales(2 * 6 * 2, '\0');
  std::iota(blocks.begin(), blocks.end(), '\0');
  std::iota(scales.begin(), scales.end(), char{100});
  return {{"mlp.experts.down_proj_blocks", "U8", {2, 6, 2, 16}, blocks},
          {"mlp.experts.down_proj_scales", "U8", {2, 6, 2}, scales}};
}

TEST(Experts, Mxfp4StaysPacked) {
  for (const RankOf rank : {RankOf{0, 1}, RankOf{1, 2}}) {
    ExpertFile file(packed_tensors(), rank);
    const auto experts = file.experts(down(2, 64, true));
    ASSERT_TRUE(experts) << experts.error().message();
    const std::int64_t cols = 64 / rank.size, groups = cols / 32;
    for (int e = 0; e < 2; ++e) {
      const WeightPart& part = (*experts)[static_cast<std::size_t>(e)].parts[0];
      EXPECT_EQ(part.values.dtype(), DType::e2m1);
      EXPECT_EQ(part.grain, ScaleGrain::block);
      EXPECT_EQ(part.block_rows, 1);
      EXPECT_EQ(part.block_cols, 32);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(part.values.raw());
      for (int r = 0; r < 6; ++r) {
        for (int i = 0; i < cols / 2; ++i)
          EXPECT_EQ(bytes[r * cols / 2 + i], (e * 192 + r * 32 + rank.rank * 16 + i) % 256);
        for (int g = 0; g < groups; ++g)
          EXPECT_EQ(part.scale.data<std::uint8_t>()[r * groups + g], 100 + e * 12 + r * 2 + rank.rank + g);
      }
    }
    EXPECT_TRUE(file.binder->finish());
    if (rank.size == 1) {
      EXPECT_EQ(file.device.copied, 0u);
    }
  }
}

// GGUF's blocks of 17 bytes: a power of two, then sixteen bytes whose low nibbles are the first half of 32 numbers.
TEST(Experts, Mxfp4OfGguf) {
  std::string data;
  for (int block = 0; block < 2 * 6 * 2; ++block) {
    data += static_cast<char>(100 + block);
    for (int i = 0; i < 16; ++i) data += static_cast<char>((block + i) % 16 | (block + 3 * i) % 16 << 4);
  }
  GgufParts parts;
  parts.tensors = {tensor_record("mlp.experts.down_proj", {64, 6, 2}, 39, 0)};
  parts.data = data;
  TemporaryDirectory directory;
  const Checkpoint checkpoint = *Checkpoint::open(directory.write("model.gguf", parts.bytes()));
  for (const RankOf rank : {RankOf{0, 1}, RankOf{1, 2}}) {
    HostDevice device;
    CheckpointBinder binder(checkpoint, {}, {}, device, rank);
    std::vector<Weight> experts;
    const Status bound = binder.experts(experts, down(2, 64));
    ASSERT_TRUE(bound) << bound.error().message();
    const int groups = 2 / rank.size;
    for (int e = 0; e < 2; ++e) {
      const WeightPart& part = experts[static_cast<std::size_t>(e)].parts[0];
      ASSERT_EQ(part.values.describe(), groups == 2 ? "e2m1 [6, 64]" : "e2m1 [6, 32]");
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(part.values.raw());
      for (int r = 0; r < 6; ++r)
        for (int g = 0; g < groups; ++g) {
          const int block = e * 12 + r * 2 + rank.rank + g;
          EXPECT_EQ(part.scale.data<std::uint8_t>()[r * groups + g], 100 + block);
          for (int i = 0; i < 32; ++i) {
            const int pair = bytes[(r * groups + g) * 16 + i / 2];
            EXPECT_EQ(i % 2 == 0 ? pair & 15 : pair >> 4, i < 16 ? (block + i) % 16 : (block + 3 * (i - 16)) % 16);
          }
        }
    }
  }
  parts.data[17 * 5] = '\xFF';
  const Checkpoint damaged = *Checkpoint::open(directory.write("damaged.gguf", parts.bytes()));
  HostDevice device;
  CheckpointBinder binder(damaged, {}, {}, device, {});
  std::vector<Weight> experts;
  EXPECT_NE(binder.experts(experts, down(2, 64)).error().message().find("scale of 255"), std::string::npos);
}

TEST(Experts, RefusesByName) {
  const auto expect = [](ExpertFile& file, const ExpertsRequest& request, const std::string& part) {
    EXPECT_NE(file.refusal(request).find(part), std::string::npos) << file.refusal(request);
  };
  ExpertFile three(separate_tensors(3));
  expect(three, gate_and_up(4), "\"mlp.experts.3.gate_proj.weight\" is missing");
  ASSERT_TRUE(three.experts(gate_and_up(2)));

  ExpertFile stacked({stacked_tensor(3, false)});
  expect(stacked, gate_and_up(4), "\"mlp.experts.gate_up_proj\" has shape [3, 8, 6], expected [4, 8, 6]");
  expect(stacked, gate_and_up(3, true), "has shape [3, 8, 6], expected [3, 6, 8]");

  std::vector<MadeTensor> packed = packed_tensors();
  ExpertFile wrong_count(packed);
  expect(wrong_count, down(3, 64), "\"mlp.experts.down_proj_blocks\" has shape [2, 6, 2, 16], expected [3, 6, 2, 16]");
  expect(wrong_count, down(2, 70), "a block has 32");
  ExpertFile uneven(packed, {0, 4});
  expect(uneven, down(2, 64), "cuts through a block of 32");
  packed[1].data[5] = '\xFF';
  ExpertFile damaged(packed);
  expect(damaged, down(2, 64), "\"mlp.experts.down_proj_scales\" holds 255");
  packed.pop_back();
  ExpertFile no_scales(packed);
  expect(no_scales, down(2, 64), "\"mlp.experts.down_proj_scales\" is missing");
  ExpertFile codes({{"mlp.experts.down_proj", "F8_E4M3", {2, kIn, kWidth}, std::string(2 * kIn * kWidth, '\x38')}});
  expect(codes, down(2), "holds all experts in e4m3, which is not supported");
  ExpertFile whole({{"mlp.experts.down_proj", "I32", {2, kIn, kWidth}, std::string(8 * kIn * kWidth, '\0')}});
  expect(whole, down(2), "but a weight must be");
}

TEST(Experts, BiasesAreCutLikeTheirRows) {
  std::vector<float> stacked, gate, up;
  for (int e = 0; e < 2; ++e) {
    for (int r = 0; r < kWidth; ++r) gate.push_back(number(e, 0, r, 0));
    for (int r = 0; r < kWidth; ++r) up.push_back(number(e, 1, r, 0));
    for (int r = 0; r < 2 * kWidth; ++r) stacked.push_back(number(e, r / kWidth, r % kWidth, 0));
  }
  ExpertFile one({{"mlp.experts.gate_up_proj_bias", "F32", {2, 2 * kWidth}, raw_list(stacked)}}, {1, 2});
  ExpertFile two({{"mlp.experts.gate_proj_bias", "F32", {2, kWidth}, raw_list(gate)},
                  {"mlp.experts.up_proj_bias", "F32", {2, kWidth}, raw_list(up)}},
                 {1, 2});
  for (ExpertFile* file : {&one, &two}) {
    Tensor bias;
    const Status bound = file->binder->expert_biases(bias, gate_and_up(2));
    ASSERT_TRUE(bound) << bound.error().message();
    EXPECT_EQ(bias.describe(), "f32 [2, 4]");
    for (int i = 0; i < 8; ++i) EXPECT_EQ(bias.data<float>()[i], number(i / 4, i % 4 / 2, 2 + i % 2, 0));
  }
  Tensor bias;
  EXPECT_NE(one.binder->expert_biases(bias, gate_and_up(3)).error().message().find("expected [3, 8]"),
            std::string::npos);
}

TEST(Experts, DummiesAreCutsOfTheSameWhole) {
  Quantization quantization;
  quantization.scheme = WeightScheme::mxfp4;
  HostDevice device;
  DummyBinder whole(device, {}, 3, quantization), half(device, {1, 2}, 3, quantization);
  std::vector<Weight> all, share;
  ASSERT_TRUE(whole.experts(all, down(2, 128)));
  ASSERT_TRUE(half.experts(share, down(2, 128)));
  ASSERT_EQ(share.size(), 2u);
  for (std::size_t e = 0; e < 2; ++e) {
    EXPECT_EQ(share[e].parts[0].values.describe(), "e2m1 [6, 64]");
    EXPECT_EQ(share[e].parts[0].scale.describe(), "e8m0 [6, 2]");
    for (int r = 0; r < 6; ++r)
      EXPECT_EQ(std::memcmp(share[e].parts[0].values.raw() + r * 32, all[e].parts[0].values.raw() + r * 64 + 32, 32),
                0);
  }
  EXPECT_NE(std::memcmp(all[0].parts[0].values.raw(), all[1].parts[0].values.raw(), 6 * 64), 0);
  int seen[16] = {};
  for (int i = 0; i < 6 * 64; ++i) ++seen[static_cast<int>(all[0].parts[0].values.raw()[i]) & 15];
  for (const int count : seen) EXPECT_GT(count, 5) << "every code comes";
  EXPECT_FALSE(whole.experts(all, down(2, 100))) << "rows that are no whole blocks";

  WeightMeter meter(quantization);
  ASSERT_TRUE(meter.experts(all, down(2, 128)));
  EXPECT_EQ(meter.bytes(), 2u * 6 * (64 + 4));
}

}  // namespace
}  // namespace octavo
