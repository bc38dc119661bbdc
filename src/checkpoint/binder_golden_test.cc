#include <gtest/gtest.h>

#include "checkpoint/binder.h"
#include "checkpoint/test_files.h"

namespace octavo {
namespace {

using namespace octavo::testing;

std::vector<float> numbers_of(const Tensor& tensor) {
  return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.elements());
}

// The whole walk over a two-layer decoder, as the fixtures with 8-bit weights have it.
void walk(CheckpointBinder& binder, std::int64_t q_rows, std::int64_t kv_rows, std::int64_t inner, bool qk_norm,
          std::vector<Weight>& qkv, std::vector<Weight>& down, std::vector<StoredScales>& scales) {
  Tensor vector;
  Weight weight;
  const auto bind = [&](Weight& target, const std::vector<PartRequest>& parts, std::int64_t in) {
    const Status status = binder.weight(target, parts, in);
    EXPECT_TRUE(status) << message_of(status);
  };
  bind(weight, {{"model.embed_tokens", 512}}, 128);
  bind(weight, {{"lm_head", 512}}, 128);
  EXPECT_TRUE(binder.vector(vector, "model.norm.weight", 128));
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    EXPECT_TRUE(binder.vector(vector, prefix + "input_layernorm.weight", 128));
    EXPECT_TRUE(binder.vector(vector, prefix + "post_attention_layernorm.weight", 128));
    bind(qkv.emplace_back(),
         {{prefix + "self_attn.q_proj", q_rows},
          {prefix + "self_attn.k_proj", kv_rows},
          {prefix + "self_attn.v_proj", kv_rows}},
         128);
    bind(weight, {{prefix + "self_attn.o_proj", 128}}, q_rows);
    bind(weight, {{prefix + "mlp.gate_proj", inner}, {prefix + "mlp.up_proj", inner}}, 128);
    bind(down.emplace_back(), {{prefix + "mlp.down_proj", 128}}, inner);
    for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) {
      if (!qk_norm) continue;
      EXPECT_TRUE(binder.vector(vector, prefix + norm, 128));
    }
    const auto stored = binder.kv_scales(prefix + "self_attn", 4, 2);
    EXPECT_TRUE(stored) << message_of(stored);
    if (stored) scales.push_back(*stored);
  }
  const Status finished = binder.finish();
  EXPECT_TRUE(finished) << message_of(finished);
}

struct Walked {
  Checkpoint checkpoint;
  HostDevice device;
  std::vector<Weight> qkv, down;
  std::vector<StoredScales> scales;
  std::vector<Buffer> buffers;

  Walked(const std::string& path, std::int64_t q_rows, std::int64_t kv_rows, std::int64_t inner, bool qk_norm) {
    auto opened = Checkpoint::open(path);
    EXPECT_TRUE(opened) << message_of(opened);
    if (!opened) return;
    checkpoint = *std::move(opened);
    const auto quantization = read_quantization(checkpoint.config());
    EXPECT_TRUE(quantization) << message_of(quantization);
    CheckpointBinder binder(checkpoint, *quantization, {}, device, {});
    walk(binder, q_rows, kv_rows, inner, qk_norm, qkv, down, scales);
    buffers = binder.take_buffers();
  }
};

// Expected numbers below were read from the fixtures with Python.
TEST(BinderGolden, BindsScalesPerTensor) {
  const Walked w(OCTAVO_SOURCE_DIR "/tests/golden/llama-fp8-tensor-kv", 256, 128, 192, false);
  ASSERT_EQ(w.scales.size(), 2u);
  const WeightPart& key = w.qkv[1].parts[1];
  EXPECT_EQ(key.grain, ScaleGrain::tensor);
  EXPECT_EQ(key.values.describe(), "e4m3 [128, 128]");
  EXPECT_EQ(numbers_of(key.scale), std::vector<float>{0.00115966796875f});
  EXPECT_EQ(numbers_of(key.input_scale), std::vector<float>{0.00970458984375f});
  EXPECT_EQ(w.scales[1].key, (std::vector<float>{0.01202392578125f, 0.01202392578125f}));
  EXPECT_EQ(w.scales[1].value, (std::vector<float>{0.0120849609375f, 0.0120849609375f}));
  EXPECT_TRUE(w.scales[1].query.empty());
  EXPECT_FALSE(w.scales[1].per_head);
}

TEST(BinderGolden, BindsScalesPerChannelAndHead) {
  const std::string fixtures = large_fixtures(1);
  if (fixtures.empty()) return;
  const Walked w(fixtures + "/golden/llama-fp8-channel-headkv", 256, 128, 192, false);
  ASSERT_EQ(w.scales.size(), 2u);
  const WeightPart& down = w.down[1].parts[0];
  EXPECT_EQ(down.grain, ScaleGrain::channel);
  EXPECT_EQ(down.scale.size(0), 128);
  EXPECT_EQ(down.scale.data<float>()[0], 0.0005275181611068547f);
  EXPECT_EQ(down.scale.data<float>()[127], 0.0004904610686935484f);
  EXPECT_TRUE(down.input_scale.empty());
  EXPECT_TRUE(w.scales[1].per_head);
  EXPECT_EQ(w.scales[1].key, (std::vector<float>{0.010853058658540249f, 0.012521970085799694f}));
  EXPECT_EQ(w.scales[1].value, (std::vector<float>{0.013009374029934406f, 0.012147295288741589f}));
  EXPECT_EQ(w.scales[1].query, (std::vector<float>{0.011394311673939228f, 0.012900768779218197f, 0.011100404895842075f,
                                                   0.011822442524135113f}));
}

TEST(BinderGolden, BindsScalesPerBlock) {
  const std::string fixtures = large_fixtures(1);
  if (fixtures.empty()) return;
  const Walked w(fixtures + "/golden/qwen3-fp8-block", 512, 256, 256, true);
  ASSERT_EQ(w.scales.size(), 2u);
  const WeightPart& query = w.qkv[1].parts[0];
  EXPECT_EQ(query.grain, ScaleGrain::block);
  EXPECT_EQ(query.block_rows, 128);
  EXPECT_EQ(query.block_cols, 128);
  EXPECT_EQ(numbers_of(query.scale), (std::vector<float>{0.000946044921875f, 0.0009329659515060484f,
                                                         0.0009242466767318547f, 0.0010506765684112906f}));
  EXPECT_EQ(w.down[1].parts[0].scale.describe(), "f32 [1, 2]");
  EXPECT_TRUE(w.scales[1].key.empty());
}

}  // namespace
}  // namespace octavo
