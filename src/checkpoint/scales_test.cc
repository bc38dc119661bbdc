#include "checkpoint/scales.h"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/test_files.h"

namespace octavo {
namespace {

using namespace octavo::testing;

const std::string kPrefix = "model.layers.3.self_attn";

MadeTensor scale(const std::string& suffix, const std::vector<float>& numbers, std::vector<std::int64_t> shape) {
  return {kPrefix + suffix, "F32", std::move(shape), raw_list(numbers)};
}

// Two KV heads, four query heads.
Result<StoredScales> read_scales(const std::vector<MadeTensor>& tensors) {
  const TemporaryDirectory d;
  d.write("config.json", "{}");
  d.write("model.safetensors", safetensors_bytes(tensors));
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open(d.path()));
  return read_kv_scales(checkpoint, kPrefix, 4, 2);
}

using Floats = std::vector<float>;

TEST(KvScales, AbsentIsEmpty) {
  const auto scales = read_scales({{"other", "F32", {1}, raw(1.0f)}});
  ASSERT_TRUE(scales);
  EXPECT_TRUE(scales->key.empty() && scales->value.empty() && scales->query.empty() && !scales->per_head);
}

TEST(KvScales, EverySpelling) {
  for (const char* suffix : {".k_scale", ".k_proj.k_scale", ".k_proj.output_scale"}) {
    const auto scales = read_scales({scale(suffix, {0.5f}, {1})});
    ASSERT_TRUE(scales) << message_of(scales);
    EXPECT_EQ(scales->key, (Floats{0.5f, 0.5f})) << suffix;
    EXPECT_TRUE(scales->value.empty());
    EXPECT_FALSE(scales->per_head);
  }
  for (const char* suffix : {".v_scale", ".v_proj.v_scale", ".v_proj.output_scale"}) {
    const auto scales = read_scales({scale(suffix, {0.5f}, {})});
    ASSERT_TRUE(scales) << message_of(scales);
    EXPECT_EQ(scales->value, (Floats{0.5f, 0.5f})) << suffix;
    EXPECT_TRUE(scales->key.empty());
  }
  for (const char* suffix : {".q_scale", ".q_proj.q_scale", ".q_proj.output_scale"}) {
    const auto scales = read_scales({scale(suffix, {1, 2, 3, 4}, {4, 1, 1})});
    ASSERT_TRUE(scales) << message_of(scales);
    EXPECT_EQ(scales->query, (Floats{1, 2, 3, 4})) << suffix;
    EXPECT_TRUE(scales->per_head);
  }
  const auto both = read_scales({scale(".kv_scale", {0.25f}, {1}), scale(".prob_output_scale", {9}, {1})});
  ASSERT_TRUE(both) << message_of(both);
  EXPECT_EQ(both->key, (Floats{0.25f, 0.25f}));
  EXPECT_EQ(both->value, both->key);
}

TEST(KvScales, ShapesAndDtypes) {
  for (const auto& shape : {std::vector<std::int64_t>{2}, {2, 1, 1}}) {
    const auto scales = read_scales({scale(".k_scale", {0.5f, 2}, shape)});
    ASSERT_TRUE(scales) << message_of(scales);
    EXPECT_EQ(scales->key, (Floats{0.5f, 2}));
    EXPECT_TRUE(scales->per_head);
  }
  const auto bf16 = read_scales({{kPrefix + ".v_scale", "BF16", {1}, raw<std::uint16_t>(0x3F00)}});
  ASSERT_TRUE(bf16) << message_of(bf16);
  EXPECT_EQ(bf16->value, (Floats{0.5f, 0.5f}));
  EXPECT_FALSE(read_scales({{kPrefix + ".v_scale", "I32", {1}, raw(1)}}));
  for (const auto& shape : {std::vector<std::int64_t>{4}, {1, 1}, {2, 2, 1}, {1, 1, 2}}) {
    std::int64_t count = 1;
    for (const auto n : shape) count *= n;
    const auto scales = read_scales({scale(".k_scale", Floats(static_cast<std::size_t>(count), 1.0f), shape)});
    ASSERT_FALSE(scales) << shape_text(shape);
    EXPECT_NE(scales.error().message().find("\"" + kPrefix + ".k_scale\" has shape " + shape_text(shape) +
                                            ", expected [1], [2] or [2, 1, 1]"),
              std::string::npos)
        << scales.error().message();
  }
}

TEST(KvScales, RefusesNumbersThatAreNoScales) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float number : {0.0f, -1.0f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    const auto scales = read_scales({scale(".k_scale", {1, number}, {2})});
    ASSERT_FALSE(scales) << number;
    EXPECT_NE(scales.error().message().find(kPrefix + ".k_scale"), std::string::npos);
  }
}

TEST(KvScales, TwoSpellingsMustAgree) {
  EXPECT_TRUE(read_scales({scale(".k_scale", {0.5f}, {1}), scale(".k_proj.k_scale", {0.5f, 0.5f}, {2})}));
  const auto scales = read_scales({scale(".k_scale", {0.5f}, {1}), scale(".kv_scale", {0.25f}, {1})});
  ASSERT_FALSE(scales);
  EXPECT_NE(scales.error().message().find("two different values"), std::string::npos) << scales.error().message();
}

TEST(KvScales, Names) {
  std::string prefix;
  for (const char* suffix :
       {".k_scale", ".v_proj.output_scale", ".kv_scale", ".k_proj.k_scale", ".prob_output_scale"}) {
    EXPECT_TRUE(is_kv_scale_name(kPrefix + suffix, &prefix)) << suffix;
    EXPECT_EQ(prefix, kPrefix) << suffix;
  }
  for (const char* name :
       {"a.weight_scale", "a.down_proj.output_scale", "k_scale", ".k_scale", "a.input_scale", "a.mk_scale"})
    EXPECT_FALSE(is_kv_scale_name(name, nullptr)) << name;
}

}  // namespace
}  // namespace octavo
