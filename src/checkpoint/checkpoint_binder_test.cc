#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <numeric>

#include "checkpoint/binder.h"
#include "checkpoint/test_files.h"

namespace octavo {
namespace {

using namespace octavo::testing;

// A checkpoint of these tensors with a binder over it.
struct Bound {
  TemporaryDirectory directory;
  Checkpoint checkpoint;
  HostDevice device;
  std::unique_ptr<CheckpointBinder> binder;

  explicit Bound(const std::vector<MadeTensor>& tensors, const Quantization& quantization = {}, RankOf rank = {},
                 NameMap names = {}, const std::string& padding = {}) {
    directory.write("config.json", "{}");
    directory.write("model.safetensors", safetensors_bytes(tensors, padding));
    auto opened = Checkpoint::open(directory.path());
    EXPECT_TRUE(opened) << message_of(opened);
    if (opened) checkpoint = *std::move(opened);
    binder = std::make_unique<CheckpointBinder>(checkpoint, quantization, std::move(names), device, rank);
  }
  Status bind(Weight& weight, const PartRequest& part, std::int64_t in) {
    return binder->weight(weight, {&part, 1}, in);
  }
};

template <class T>
std::vector<T> numbers_of(const Tensor& tensor) {
  return std::vector<T>(tensor.data<T>(), tensor.data<T>() + tensor.elements());
}

MadeTensor floats(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& numbers) {
  return {name, "F32", std::move(shape), raw_list(numbers)};
}

MadeTensor counted(const std::string& name, std::int64_t out, std::int64_t in) {  // element = its index
  std::vector<float> numbers(static_cast<std::size_t>(out * in));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  return floats(name, {out, in}, numbers);
}

MadeTensor e4m3(const std::string& name, std::int64_t out, std::int64_t in) {
  return {name, "F8_E4M3", {out, in}, std::string(static_cast<std::size_t>(out * in), '\x38')};
}

void expect_error(const Status& status, const std::vector<std::string>& parts) {
  ASSERT_FALSE(status);
  for (const std::string& part : parts)
    EXPECT_NE(status.error().message().find(part), std::string::npos) << status.error().message() << " | " << part;
}

TEST(CheckpointBinder, StacksPartsAndAdoptsThem) {
  Bound bound({counted("q.weight", 4, 2), {"k.weight", "BF16", {2, 2}, raw_list<std::uint16_t>({1, 2, 3, 4})}}, {}, {},
              {}, std::string(3, ' '));
  const std::size_t misaligned = bound.checkpoint.find("q.weight")->bytes.size();
  Weight weight;
  const std::array<PartRequest, 2> parts = {{{"q", 4}, {"k", 2}}};
  const Status status = bound.binder->weight(weight, parts, 2);
  ASSERT_TRUE(status) << message_of(status);
  EXPECT_EQ(weight.out, 6);
  EXPECT_EQ(weight.in, 2);
  ASSERT_EQ(weight.parts.size(), 2u);
  EXPECT_EQ(weight.parts[0].grain, ScaleGrain::none);
  EXPECT_EQ(numbers_of<float>(weight.parts[0].values), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(numbers_of<std::uint16_t>(weight.parts[1].values), (std::vector<std::uint16_t>{1, 2, 3, 4}));
  EXPECT_EQ(bound.device.adopted + bound.device.copied, misaligned + 8);
  EXPECT_TRUE(bound.binder->finish());
}

TEST(CheckpointBinder, CopiesWhatIsNotAligned) {
  for (std::size_t spaces = 0; spaces < 8; ++spaces) {
    Bound bound({counted("w.weight", 2, 2)}, {}, {}, {}, std::string(spaces, ' '));
    const auto address = reinterpret_cast<std::uintptr_t>(bound.checkpoint.find("w.weight")->bytes.data());
    Weight weight;
    ASSERT_TRUE(bound.bind(weight, {"w", 2}, 2));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(weight.parts[0].values.raw()) % 4, 0u);
    EXPECT_EQ(bound.device.copied, address % 4 == 0 ? 0u : 16u);
    EXPECT_EQ(numbers_of<float>(weight.parts[0].values), (std::vector<float>{0, 1, 2, 3}));
  }
}

TEST(CheckpointBinder, NumbersOutliveCheckpointAndBinder) {
  Weight weight;
  std::vector<Buffer> buffers;
  {
    Bound bound({counted("w.weight", 2, 2)});
    ASSERT_TRUE(bound.bind(weight, {"w", 2}, 2));
    buffers = bound.binder->take_buffers();
  }
  EXPECT_EQ(numbers_of<float>(weight.parts[0].values), (std::vector<float>{0, 1, 2, 3}));
}

TEST(CheckpointBinder, NamesWhatDoesNotFit) {
  Bound bound({counted("w.weight", 4, 2),
               {"i.weight", "I8", {2, 2}, "1234"},
               e4m3("f.weight", 2, 2),
               {"g.qweight", "I32", {1}, "1234"},
               floats("n.weight", {3}, {1, 2, 3})});
  Weight weight;
  expect_error(bound.bind(weight, {"w", 2}, 4), {"model.safetensors", "\"w.weight\"", "[4, 2]", "expected [2, 4]"});
  expect_error(bound.bind(weight, {"n", 3}, 1), {"\"n.weight\"", "[3]", "expected [3, 1]"});
  expect_error(bound.bind(weight, {"none", 3}, 1), {"\"none.weight\" is missing"});
  expect_error(bound.bind(weight, {"g", 3}, 1), {"\"g.weight\" is missing", "\"g.qweight\" is there", "GPTQ"});
  expect_error(bound.bind(weight, {"i", 2}, 2), {"\"i.weight\" is i8"});
  expect_error(bound.bind(weight, {"f", 2}, 2), {"\"f.weight\" is e4m3, but has no weight_scale"});
  Tensor vector;
  expect_error(bound.binder->vector(vector, "n.weight", 4), {"\"n.weight\"", "[3]", "expected [4]"});
  expect_error(bound.binder->vector(vector, "w.weight", 8), {"\"w.weight\"", "[4, 2]", "expected [8]"});
  EXPECT_TRUE(weight.parts.empty());
  EXPECT_TRUE(vector.empty());
  bound.device.limit = 3;
  EXPECT_EQ(bound.binder->vector(vector, "n.weight", 3).error().kind(), ErrorKind::exhausted);
}

TEST(CheckpointBinder, VectorsBecomeF32) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Bound bound({{"a", "BF16", {2}, raw_list<std::uint16_t>({0x3F80, 0xC000})},
               {"b", "F16", {1}, raw<std::uint16_t>(0x3800)},
               floats("bad", {2}, {1, kNaN}),
               {"i", "I32", {1}, "1234"}});
  Tensor vector;
  const std::array<PartRequest, 2> parts = {{{"a", 2}, {"b", 1}}};
  ASSERT_TRUE(bound.binder->vectors(vector, parts));
  EXPECT_EQ(numbers_of<float>(vector), (std::vector<float>{1, -2, 0.5f}));
  expect_error(bound.binder->vector(vector, "bad", 2), {"\"bad\" holds", "nan at position 1"});
  expect_error(bound.binder->vector(vector, "i", 1), {"\"i\" is i32"});
  const std::array<float, 2> table = {0.25f, 4};
  ASSERT_TRUE(bound.binder->constant(vector, table));
  EXPECT_EQ(numbers_of<float>(vector), (std::vector<float>{0.25f, 4}));
  EXPECT_TRUE(bound.binder->has("a"));
  EXPECT_FALSE(bound.binder->has("c"));
}

TEST(CheckpointBinder, ScaleShapeDecidesGrain) {
  Quantization blocks;
  blocks.scheme = WeightScheme::fp8_block;
  blocks.block_rows = 2;
  blocks.block_cols = 4;
  const auto grain_of = [](const MadeTensor& scale, const Quantization& quantization, std::vector<float> expected) {
    Bound bound({e4m3("w.weight", 3, 6), scale, floats("w.input_scale", {1}, {0.5f})}, quantization);
    Weight weight;
    const Status status = bound.bind(weight, {"w", 3}, 6);
    EXPECT_TRUE(status) << message_of(status);
    if (!status) return ScaleGrain::none;
    EXPECT_EQ(numbers_of<float>(weight.parts[0].scale), expected);
    EXPECT_EQ(numbers_of<float>(weight.parts[0].input_scale), std::vector<float>{0.5f});
    EXPECT_TRUE(bound.binder->finish());
    return weight.parts[0].grain;
  };
  EXPECT_EQ(grain_of(floats("w.weight_scale", {}, {2}), {}, {2}), ScaleGrain::tensor);
  EXPECT_EQ(grain_of(floats("w.weight_scale", {1}, {2}), {}, {2}), ScaleGrain::tensor);
  EXPECT_EQ(grain_of(floats("w.weight_scale", {3}, {2, 3, 4}), {}, {2, 3, 4}), ScaleGrain::channel);
  EXPECT_EQ(
      grain_of({"w.weight_scale", "BF16", {3, 1}, raw_list<std::uint16_t>({0x3F80, 0x4000, 0x4080})}, {}, {1, 2, 4}),
      ScaleGrain::channel);
  EXPECT_EQ(grain_of(floats("w.weight_scale_inv", {2, 2}, {1, 2, 3, 4}), blocks, {1, 2, 3, 4}), ScaleGrain::block);
  EXPECT_EQ(grain_of({"w.weight_scale_inv", "F8_E8M0", {2, 2}, "\x7F\x80\x7E\x7F"}, blocks, {1, 2, 0.5f, 1}),
            ScaleGrain::block);
}

TEST(CheckpointBinder, RefusesScalesThatCannotBe) {
  const auto bind = [](const MadeTensor& scale) {
    Bound bound({e4m3("w.weight", 3, 6), scale});
    Weight weight;
    return bound.bind(weight, {"w", 3}, 6);
  };
  expect_error(
      bind(floats("w.weight_scale", {2, 2}, {1, 1, 1, 1})),
      {"\"w.weight_scale\" has shape [2, 2], expected [1], [3] or [3, 1] for a weight [3, 6]", "no block size"});
  expect_error(bind(floats("w.weight_scale", {1, 3}, {1, 1, 1})), {"has shape [1, 3]"});
  expect_error(bind(floats("w.weight_scale", {1}, {0})), {"\"w.weight_scale\" holds 0.0"});
  expect_error(bind(floats("w.weight_scale", {1}, {-1})), {"holds -1.0"});
  expect_error(bind(floats("w.weight_scale", {1}, {std::numeric_limits<float>::infinity()})), {"holds inf"});
  expect_error(bind({"w.weight_scale", "U8", {1}, "1"}), {"\"w.weight_scale\" is u8"});
  Bound bound({e4m3("w.weight", 3, 6), floats("w.weight_scale", {1}, {1}), floats("w.input_scale", {3}, {1, 1, 1})});
  Weight weight;
  expect_error(bound.bind(weight, {"w", 3}, 6), {"\"w.input_scale\" has shape [3], expected [1]"});
}

TEST(CheckpointBinder, PairedRowsAreUndone) {
  NameMap names;
  names.file_name = [](const std::string& name) {
    return name == "q.weight" ? "blk.q" : name == "q.bias" ? "blk.b" : "";
  };
  names.paired_rows = [](const std::string& name) { return name == "q.weight" || name == "q.bias" ? 4 : 0; };
  // Two heads of 4: the file has rows 0 2 1 3 of each head.
  const std::vector<MadeTensor> tensors = {floats("blk.q", {8, 1}, {0, 2, 1, 3, 4, 6, 5, 7}),
                                           floats("blk.b", {8}, {0, 2, 1, 3, 4, 6, 5, 7})};
  Bound bound(tensors, {}, {}, names);
  Weight weight;
  Tensor bias;
  ASSERT_TRUE(bound.bind(weight, {"q", 8}, 1));
  ASSERT_TRUE(bound.binder->vector(bias, "q.bias", 8));
  EXPECT_EQ(numbers_of<float>(weight.parts[0].values), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(numbers_of<float>(bias), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  expect_error(bound.bind(weight, {"v", 8}, 1), {"has no place for tensor \"v.weight\""});
  EXPECT_TRUE(bound.binder->kv_scales("q", 1, 1)->key.empty()) << "the container has no name for them";
  Bound second(tensors, {}, {1, 2}, names);
  ASSERT_TRUE(second.bind(weight, {"q", 8, Cut::rows, 4}, 1));
  EXPECT_EQ(numbers_of<float>(weight.parts[0].values), (std::vector<float>{4, 5, 6, 7}));
}

TEST(CheckpointBinder, CutsRowsColumnsAndScales) {
  const std::vector<MadeTensor> tensors = {
      counted("w.weight", 4, 4),        floats("b", {4}, {0, 1, 2, 3}),
      e4m3("f.weight", 4, 8),           floats("f.weight_scale", {4, 1}, {1, 2, 3, 4}),
      e4m3("g.weight", 4, 8),           floats("g.weight_scale", {2, 2}, {1, 2, 3, 4}),
      floats("a.k_scale", {2}, {1, 2}), floats("a.q_scale", {4}, {1, 2, 3, 4})};
  Quantization quantization;
  quantization.scheme = WeightScheme::mixed;
  quantization.block_rows = 2;
  quantization.block_cols = 4;
  Bound bound(tensors, quantization, {1, 2});
  Weight weight;
  ASSERT_TRUE(bound.bind(weight, {"w", 4, Cut::rows, 2}, 4));
  EXPECT_EQ(numbers_of<float>(weight.parts[0].values), (std::vector<float>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(weight.out, 2);
  ASSERT_TRUE(bound.bind(weight, {"w", 4, Cut::columns, 1}, 4));
  EXPECT_EQ(numbers_of<float>(weight.parts[0].values), (std::vector<float>{2, 3, 6, 7, 10, 11, 14, 15}));
  EXPECT_EQ(weight.in, 2);
  Tensor vector;
  const PartRequest part{"b", 4, Cut::rows, 1};
  ASSERT_TRUE(bound.binder->vectors(vector, {&part, 1}));
  EXPECT_EQ(numbers_of<float>(vector), (std::vector<float>{2, 3}));
  ASSERT_TRUE(bound.bind(weight, {"f", 4, Cut::rows, 1}, 8));
  EXPECT_EQ(numbers_of<float>(weight.parts[0].scale), (std::vector<float>{3, 4}));
  ASSERT_TRUE(bound.bind(weight, {"f", 4, Cut::columns, 1}, 8));
  EXPECT_EQ(numbers_of<float>(weight.parts[0].scale), (std::vector<float>{1, 2, 3, 4}));
  ASSERT_TRUE(bound.bind(weight, {"g", 4, Cut::rows, 2}, 8));
  EXPECT_EQ(numbers_of<float>(weight.parts[0].scale), (std::vector<float>{3, 4}));
  ASSERT_TRUE(bound.bind(weight, {"g", 4, Cut::columns, 4}, 8));
  EXPECT_EQ(numbers_of<float>(weight.parts[0].scale), (std::vector<float>{2, 4}));
  const auto scales = bound.binder->kv_scales("a", 4, 2);
  ASSERT_TRUE(scales) << message_of(scales);
  EXPECT_EQ(scales->key, std::vector<float>{2});
  EXPECT_EQ(scales->query, (std::vector<float>{3, 4}));
  EXPECT_TRUE(bound.binder->finish());

  Bound four(tensors, quantization, {1, 4});
  expect_error(four.bind(weight, {"w", 4, Cut::rows, 3}, 4), {"\"w.weight\"", "4", "units of 3"});
}

// The value of every number of each share is that of the whole, wherever a share begins in a block.
TEST(CheckpointBinder, SharesThatBeginInsideABlockOfScalesKeepTheirValues) {
  constexpr std::int64_t kOut = 12, kIn = 24;
  Quantization quantization;
  quantization.scheme = WeightScheme::fp8_block;
  quantization.block_rows = 4;
  quantization.block_cols = 16;
  const std::vector<float> scales = {1, 2, 3, 4, 5, 6};
  for (const int size : {1, 2, 3, 6})
    for (const Cut cut : {Cut::rows, Cut::columns})
      for (int rank = 0; rank < size; ++rank) {
        Bound bound({e4m3("w.weight", kOut, kIn), floats("w.weight_scale_inv", {3, 2}, scales)}, quantization,
                    {rank, size});
        Weight weight;
        const Status status = bound.bind(weight, {"w", kOut, cut}, kIn);
        ASSERT_TRUE(status) << message_of(status);
        const WeightPart& part = weight.parts[0];
        const std::int64_t first_row = cut == Cut::rows ? rank * kOut / size : 0;
        const std::int64_t first_col = cut == Cut::columns ? rank * kIn / size : 0;
        for (std::int64_t r = 0; r < weight.out; ++r)
          for (std::int64_t c = 0; c < weight.in; ++c)
            ASSERT_EQ(part.scale.rows(r / part.block_rows, 1).data<float>()[c / part.block_cols],
                      scales[static_cast<std::size_t>((first_row + r) / 4 * 2 + (first_col + c) / 16)])
                << size << " ranks, rank " << rank << ", row " << r << ", column " << c;
      }
}

// Three parts of one tensor, each with its own units, as a delta net's q, k and v have them.
TEST(CheckpointBinder, PartsOfOneTensorAreCutEachByItself) {
  const std::vector<MadeTensor> tensors = {
      counted("qkv.weight", 8, 1), floats("conv", {8, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})};
  const auto parts = [](const std::string& name) {
    return std::array<PartRequest, 3>{{{name, 2, Cut::rows, 2, 0, 8},  // one head: on both ranks
                                       {name, 2, Cut::rows, 1, 2, 8},
                                       {name, 4, Cut::rows, 2, 4, 8}}};
  };
  const std::vector<std::vector<float>> expected = {{0, 1, 2, 4, 5}, {0, 1, 3, 6, 7}};
  for (int rank = 0; rank < 2; ++rank) {
    Bound bound(tensors, {}, {rank, 2});
    Weight weight;
    ASSERT_TRUE(bound.binder->weight(weight, parts("qkv"), 1));
    std::vector<float> rows;
    for (const WeightPart& part : weight.parts)
      for (const float row : numbers_of<float>(part.values)) rows.push_back(row);
    EXPECT_EQ(rows, expected[static_cast<std::size_t>(rank)]);
    Tensor taps;
    ASSERT_TRUE(bound.binder->depthwise(taps, parts("conv"), 2));
    ASSERT_EQ(taps.describe(), "f32 [5, 2]");
    for (std::size_t row = 0; row < 5; ++row)
      EXPECT_EQ(taps.data<float>()[2 * row + 1], 2 * expected[static_cast<std::size_t>(rank)][row] + 1);
    EXPECT_TRUE(bound.binder->finish());
  }
  Bound wrong(tensors);
  Weight weight;
  expect_error(wrong.bind(weight, {"qkv", 2, Cut::none, 1, 0, 9}, 1), {"\"qkv.weight\"", "[8, 1]", "expected [9, 1]"});
}

TEST(CheckpointBinder, BlocksAreCutAtTheirEdges) {
  const TemporaryDirectory d;
  GgufParts parts;
  parts.tensors = {tensor_record("w.weight", {64, 2}, 8, 0)};
  for (char block = 0; block < 4; ++block) parts.data += std::string(34, block);
  const auto checkpoint = Checkpoint::open(d.write("x.gguf", parts.bytes()));
  ASSERT_TRUE(checkpoint) << message_of(checkpoint);
  HostDevice device;
  CheckpointBinder binder(*checkpoint, {}, {}, device, {1, 2});
  Weight weight;
  PartRequest part{"w", 2, Cut::columns, 32};
  ASSERT_TRUE(binder.weight(weight, {&part, 1}, 64));
  EXPECT_EQ(weight.parts[0].values.describe(), "q8_0 [2, 32]");
  EXPECT_EQ(std::to_integer<int>(weight.parts[0].values.raw()[0]), 1);
  EXPECT_EQ(std::to_integer<int>(weight.parts[0].values.raw()[34]), 3);
  CheckpointBinder four(*checkpoint, {}, {}, device, {1, 4});
  part.unit = 16;
  expect_error(four.weight(weight, {&part, 1}, 64), {"\"w.weight\"", "from 16 to 32 of 64 cuts through a block of 32"});
}

// A wing may put a form beside what is multiplied. Mapped bytes are given back then, and read again where somebody
// asks; numbers that had to be copied stay.
TEST(CheckpointBinder, PreparesWhatIsMultiplied) {
  class Form final : public WeightForm {};
  const std::int64_t out = 64, in = 2048;  // pages of each
  Bound bound({counted("table.weight", out, in), counted("w.weight", out, in), counted("cut.weight", out, in)});
  int prepared = 0;
  const auto prepare = [&](Weight& weight) {
    if (++prepared > 3) return Status(Error("no memory for the form", ErrorKind::exhausted));
    weight.form = std::make_shared<Form>();
    return Status();
  };
  CheckpointBinder binder(bound.checkpoint, {}, {}, bound.device, {1, 2}, prepare);
  const auto bind = [&](Weight& weight, const PartRequest& part) { return binder.weight(weight, {&part, 1}, in); };
  Weight table, whole, cut;
  PartRequest looked_up{"table", out};
  looked_up.looked_up = true;
  ASSERT_TRUE(bind(table, looked_up));
  EXPECT_EQ(prepared, 0);
  ASSERT_TRUE(binder.multiply_too(table));
  ASSERT_TRUE(bind(whole, {"w", out}));
  ASSERT_TRUE(bind(cut, {"cut", out, Cut::columns}));
  EXPECT_EQ(prepared, 3);
  for (const Weight* weight : {&table, &whole, &cut}) {
    EXPECT_NE(weight->form, nullptr);
    const std::int64_t first = weight == &cut ? in / 2 : 0;
    const auto numbers = numbers_of<float>(weight->parts[0].values);
    for (std::int64_t i = 0; i < std::ssize(numbers); ++i) {
      const std::int64_t width = weight->in;
      ASSERT_EQ(numbers[static_cast<std::size_t>(i)], static_cast<float>(i / width * in + first + i % width));
    }
  }
  expect_error(bind(whole, {"w", out}), {"no memory for the form"});
}

TEST(CheckpointBinder, FinishRefusesStrays) {
  const auto finish = [](const MadeTensor& stray) {
    NameMap names;
    names.ignorable = [](const std::string& name) { return name.starts_with("vision."); };
    Bound bound({counted("w.weight", 2, 2), stray}, {}, {}, names);
    Weight weight;
    EXPECT_TRUE(bound.bind(weight, {"w", 2}, 2));
    EXPECT_TRUE(bound.binder->kv_scales("attn", 2, 1));
    return bound.binder->finish();
  };
  const auto one = [](const std::string& name) { return floats(name, {1}, {1}); };
  EXPECT_TRUE(finish(one("attn.k_scale")));
  EXPECT_TRUE(finish(one("attn.prob_output_scale")));
  EXPECT_TRUE(finish(one("vision.w.weight_scale")));
  EXPECT_TRUE(finish(one("rotary.inv_freq"))) << "reported, not refused";
  EXPECT_TRUE(finish(floats("w.weight_zero_point", {2}, {0, 0})));
  expect_error(finish(floats("w.weight_zero_point", {2}, {0, 1})), {"\"w.weight_zero_point\"", "not zero"});
  expect_error(finish(one("layers.9.attn.k_scale")),
               {"\"layers.9.attn.k_scale\" is a scale tensor that belongs to no layer"});
  for (const char* name : {"layers.9.mlp.up_proj.weight", "model.layers.0.extra.bias", "blk.30.ffn_up.weight"})
    expect_error(finish(one(name)), {"\"" + std::string(name) + "\" is of a layer", "disagree"});
  for (const char* name :
       {"w.weight_scale", "w.weight_scale_inv", "w.input_scale", "attn.z_scale", "w.output_scale", "w.weight_scale_2"})
    expect_error(finish(one(name)), {"\"" + std::string(name) + "\" is a scale tensor that nothing uses"});
}

}  // namespace
}  // namespace octavo
