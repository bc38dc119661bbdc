// What make_model reads from a config, in both dialects, and what it refuses.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "model/family.h"
#include "model/model.h"

namespace octavo {
namespace {

constexpr const char* kConfig = R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96, "rms_norm_eps": 1e-5,
  "max_position_embeddings": 512, "rope_theta": 10000.0, "torch_dtype": "bfloat16", "eos_token_id": [2, 3]})";

class Families : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/octavo-families-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The config with one key changed (or removed, with null), through make_model.
  Result<std::unique_ptr<Model>> with(const std::string& key, const Json& value,
                                      const ConfigOverrides& overrides = {}) {
    Json config = Json::parse(kConfig);
    config[key] = value;
    EXPECT_TRUE(write_file(folder_ + "/config.json", config.dump()));
    auto checkpoint = Checkpoint::open(folder_, LoadFormat::dummy);
    EXPECT_TRUE(checkpoint);
    return make_model(*checkpoint, overrides);
  }
  std::string refusal(const std::string& key, const Json& value) {
    const auto made = with(key, value);
    return made ? "accepted" : made.error().message();
  }

  std::string folder_;
};

TEST_F(Families, ReadsTheFacts) {
  const auto model = with("head_dim", 32);
  ASSERT_TRUE(model) << model.error().message();
  const ModelSpec& spec = (*model)->spec();
  EXPECT_EQ(spec.family, "llama");
  EXPECT_EQ(spec.vocab, 96);
  EXPECT_EQ(spec.max_positions, 512);
  EXPECT_EQ(spec.layers.size(), 2u);
  EXPECT_EQ(spec.layers[1].head_dim, 32);
  EXPECT_EQ(spec.layers[1].kv_heads, 2);
  EXPECT_EQ(spec.eos, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(spec.stored_dtype, "bfloat16");
}

TEST_F(Families, DefaultsOfMissingKeys) {
  const auto model = with("num_key_value_heads", nullptr);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->spec().layers[0].kv_heads, 4);
  EXPECT_EQ((*model)->spec().layers[0].head_dim, 16);
}

TEST_F(Families, OverridesReachRopeInEitherSpelling) {
  const Json rope = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
  ConfigOverrides by_flag;
  by_flag.rope_scaling = rope;
  ConfigOverrides by_override;
  by_override.hf_overrides = {{"rope_scaling", rope}};
  ConfigOverrides by_new_name;
  by_new_name.hf_overrides = {{"rope_parameters", rope}};
  for (const ConfigOverrides& overrides : {by_flag, by_override, by_new_name}) {
    const auto model = with("head_dim", 32, overrides);
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ((*model)->spec().max_positions, 2048);
    EXPECT_EQ((*model)->spec().rope.substr(0, 16), "yarn theta=10000");
  }
}

TEST_F(Families, OverridesAreNeverIgnored) {
  ConfigOverrides theta;
  theta.hf_overrides = {{"rope_theta", 5.0}};
  const auto model = with("rope_parameters", Json{{"rope_theta", 10000.0}, {"rope_type", "default"}}, theta);
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ((*model)->spec().rope, "default theta=5");

  ConfigOverrides kindless;
  kindless.rope_scaling = {{"factor", 2.0}};
  const auto refused = with("head_dim", 32, kindless);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("--rope-scaling: the rope given by flag needs \"rope_type\""),
            std::string::npos);
}

TEST_F(Families, QwenSlidesOnlyWhenTold) {
  Json config = Json::parse(kConfig);
  config["architectures"] = {"Qwen3ForCausalLM"};
  config["sliding_window"] = 16;
  config["max_window_layers"] = 1;
  for (const bool sliding : {false, true}) {
    config["use_sliding_window"] = sliding;
    ASSERT_TRUE(write_file(folder_ + "/config.json", config.dump()));
    const auto model = make_model(*Checkpoint::open(folder_, LoadFormat::dummy), {});
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ((*model)->spec().layers[0].window, 0);
    EXPECT_EQ((*model)->spec().layers[1].window, sliding ? 16 : 0);
    EXPECT_EQ((*model)->spec().layers[1].kind, sliding ? "sliding_window" : "full_attention");
  }
}

TEST_F(Families, ExpertsAreCountedUnderEitherName) {
  for (const char* name : {"num_experts", "num_local_experts"}) {
    Json config = Json::parse(kConfig);
    config["architectures"] = {"Qwen3MoeForCausalLM"};
    config.update({{name, 8}, {"num_experts_per_tok", 3}, {"moe_intermediate_size", 32}, {"mlp_only_layers", {0}}});
    ASSERT_TRUE(write_file(folder_ + "/config.json", config.dump()));
    const auto model = make_model(*Checkpoint::open(folder_, LoadFormat::dummy), {});
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ((*model)->spec().experts, 8);
    EXPECT_EQ((*model)->spec().experts_per_token, 3);
    const auto cut = make_model(*Checkpoint::open(folder_, LoadFormat::dummy), {}, {0, 64});
    ASSERT_FALSE(cut);
    EXPECT_NE(cut.error().message().find("tensor parallel size 64 does not divide"), std::string::npos);
  }
}

TEST(ReadmeTable, NamesEveryFamily) {
  const auto readme = read_file(std::string(OCTAVO_SOURCE_DIR) + "/README.md");
  ASSERT_TRUE(readme);
  EXPECT_NE(readme->find("\n" + families_markdown() + "\n"), std::string::npos)
      << "README.md's table of models must be\n"
      << families_markdown();
}

TEST_F(Families, GptOssSlidesInEveryOtherLayerAndEndsAsHarmonyDoes) {
  Json config = Json::parse(kConfig);
  config["architectures"] = {"GptOssForCausalLM"};
  config.update(
      {{"num_local_experts", 8}, {"num_experts_per_tok", 4}, {"sliding_window", 128}, {"num_hidden_layers", 4}});
  config["vocab_size"] = 201088;
  config["eos_token_id"] = 200002;  // <|return|>
  config["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}};
  ASSERT_TRUE(write_file(folder_ + "/config.json", config.dump()));
  const auto model = make_model(*Checkpoint::open(folder_, LoadFormat::dummy), {});
  ASSERT_TRUE(model) << model.error().message();
  const ModelSpec& spec = (*model)->spec();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(spec.layers[i].window, i % 2 == 0 ? 128 : 0);
    EXPECT_TRUE(spec.layers[i].sinks);
  }
  EXPECT_EQ(spec.eos, (std::vector<std::int32_t>{200002, 200012})) << "<|call|> ends an answer too";
  EXPECT_EQ(spec.quantization.scheme, WeightScheme::mxfp4);
}

TEST_F(Families, WhatRanksCannotShareIsNamedWithItsSize) {
  const auto refusal_of = [&](int ranks, const Json& changes) {
    Json config = Json::parse(kConfig);
    config.update(changes);
    EXPECT_TRUE(write_file(folder_ + "/config.json", config.dump()));
    const auto model = make_model(*Checkpoint::open(folder_, LoadFormat::dummy), {}, {0, ranks});
    const std::string where = folder_ + "/config.json: tensor parallel size " + std::to_string(ranks) + " ";
    if (model) return std::string("accepted");
    EXPECT_TRUE(model.error().message().starts_with(where)) << model.error().message();
    return model.error().message().substr(where.size());
  };
  EXPECT_EQ(refusal_of(2, Json::object()), "accepted");
  EXPECT_EQ(refusal_of(4, Json::object()), "accepted") << "each KV head is on two ranks";
  EXPECT_EQ(refusal_of(3, Json::object()), "does not divide the model's 4 query heads");
  EXPECT_EQ(refusal_of(3, {{"num_attention_heads", 12}, {"num_key_value_heads", 4}, {"head_dim", 16}}),
            "does not divide the model's 4 KV heads and is no multiple of them");
  EXPECT_EQ(refusal_of(4, {{"intermediate_size", 130}}),
            "does not divide the model's 130 intermediate numbers of an MLP");
  const Json experts = {{"architectures", {"Qwen3MoeForCausalLM"}},
                        {"num_experts", 8},
                        {"num_experts_per_tok", 2},
                        {"moe_intermediate_size", 30}};
  EXPECT_EQ(refusal_of(4, experts), "does not divide the model's 30 intermediate numbers of an expert");
}

TEST_F(Families, RanksShareTheHeadsOfLinearLayers) {
  const auto checkpoint = Checkpoint::open(OCTAVO_SOURCE_DIR "/tests/golden/qwen35-two", LoadFormat::dummy);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  ConfigOverrides many_heads;
  many_heads.hf_overrides = {{"num_attention_heads", 12}, {"num_key_value_heads", 1}};
  const auto refusal_of = [&](int ranks) {
    const auto model = make_model(*checkpoint, many_heads, {0, ranks});
    return model ? "accepted" : model.error().message().substr(model.error().message().find("does not"));
  };
  EXPECT_EQ(refusal_of(4), "does not divide the model's 6 value heads of a linear layer");
  EXPECT_EQ(refusal_of(3), "does not divide the model's 2 key heads of a linear layer and is no multiple of them");
  EXPECT_EQ(refusal_of(6), "does not divide the model's 128 intermediate numbers of an MLP");
  // 2 key and 6 value heads of 64, 4 taps: three inputs of each channel, a state of 64 x 64 for each value head.
  for (const int ranks : {1, 2}) {
    const auto model = make_model(*checkpoint, {}, {ranks - 1, ranks});
    ASSERT_TRUE(model) << model.error().message();
    const std::vector<std::int64_t> parts = {3 * (2 * 2 + 6) * 64 / ranks, 6 * 64 * 64 / ranks};
    EXPECT_EQ((*model)->spec().layers[0].state_parts, parts);
  }
}

TEST_F(Families, RefusesByName) {
  const auto contains = [&](const std::string& key, const Json& value, const std::string& part) {
    EXPECT_NE(refusal(key, value).find(part), std::string::npos) << key << ": " << refusal(key, value);
  };
  contains("architectures", Json::array({"GPT2LMHeadModel"}),
           "\"GPT2LMHeadModel\" is not supported; supported: LlamaForCausalLM");
  contains("architectures", nullptr, "\"architectures\" is missing");
  contains("hidden_size", nullptr, "\"hidden_size\" is missing");
  contains("hidden_size", "big", "\"hidden_size\" must be a whole number, but is \"big\"");
  contains("hidden_size", -4, "between 1 and 1048576, but is -4");
  contains("hidden_size", 1e300, "\"hidden_size\" must be a whole number");
  contains("num_hidden_layers", 1000000, "between 1 and 1024");
  contains("num_attention_heads", 3, "not a multiple");
  contains("hidden_act", "gelu", "\"hidden_act\" \"gelu\" is not supported");
  contains("eos_token_id", "two", "\"eos_token_id\" must be a token id");
  contains("rope_theta", nullptr, "accepted");
  contains("rope_scaling", Json{{"rope_type", "dynamic"}}, "rope type \"dynamic\" is not supported");
  contains("rope_parameters", Json{{"rope_type", "default"}}, "accepted");
  contains("vocab_size", 99999999999, "between 1 and");
  contains("rms_norm_eps", "tiny", "\"rms_norm_eps\" must be a finite number");
  for (const std::string& odd : {std::string("a\x1b[1mb\nc"), std::string(5000, 'x')}) {
    const std::vector<std::pair<const char*, Json>> cases = {{"architectures", Json::array({odd})},
                                                             {"architectures", odd},
                                                             {"hidden_act", odd},
                                                             {"hidden_size", odd},
                                                             {"rope_scaling", Json{{odd, 1}}},
                                                             {"rope_scaling", odd},
                                                             {"eos_token_id", odd},
                                                             {"rope_scaling", Json{{"type", odd}}},
                                                             {"quantization_config", Json{{"quant_method", odd}}}};
    for (const auto& [key, value] : cases) {
      EXPECT_LT(refusal(key, value).size(), 1000u) << key;
      EXPECT_EQ(refusal(key, value).find_first_of("\n\x1b"), std::string::npos) << key;
    }
  }
}

}  // namespace
}  // namespace octavo
