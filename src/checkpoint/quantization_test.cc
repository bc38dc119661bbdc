#include "checkpoint/quantization.h"

#include <gtest/gtest.h>

#include "checkpoint/test_files.h"

namespace octavo {
namespace {

using namespace octavo::testing;

const Json kFp8 = Json::parse(R"({"num_bits":8,"type":"float","strategy":"tensor","symmetric":true,"dynamic":false,
                                  "group_size":null,"block_structure":null,"actorder":null})");

Json compressed() {
  Json config = Json::parse(R"({"quant_method":"compressed-tensors","format":"float-quantized","ignore":["lm_head"],
      "kv_cache_scheme":null,"sparsity_config":{},"transform_config":{},"config_groups":{"group_0":{"targets":["Linear"]}}})");
  config["config_groups"]["group_0"]["weights"] = kFp8;
  config["config_groups"]["group_0"]["input_activations"] = kFp8;
  return config;
}

Result<Quantization> read(const Json& quantization) {
  return read_quantization(Json{{"quantization_config", quantization}});
}

void refuses(const Json& quantization, const std::string& expected, ErrorKind kind = ErrorKind::unsupported) {
  const auto result = read(quantization);
  ASSERT_FALSE(result) << expected;
  EXPECT_NE(result.error().message().find(expected), std::string::npos) << result.error().message();
  EXPECT_EQ(result.error().kind(), kind) << result.error().message();
  EXPECT_EQ(result.error().message().find('\n'), std::string::npos);
}

TEST(Quantization, NoneUnlessTheConfigSaysSo) {
  for (const char* text :
       {"{}", R"({"quantization_config":null})", R"({"quantization_config":{}})", R"({"text_config":{}})"}) {
    const auto result = read_quantization(Json::parse(text));
    ASSERT_TRUE(result) << message_of(result);
    EXPECT_EQ(result->scheme, WeightScheme::none);
  }
}

TEST(Quantization, CompressedTensors) {
  Json config = compressed();
  auto result = read(config);
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_EQ(result->scheme, WeightScheme::fp8_tensor);
  EXPECT_FALSE(result->kv_scheme);
  EXPECT_EQ(result->description, "compressed-tensors float-quantized, weights per tensor, inputs per tensor (static)");

  config["kv_cache_scheme"] = kFp8;
  Json& weights = config["config_groups"]["group_0"]["weights"];
  weights["strategy"] = "channel";
  result = read(config);
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_EQ(result->scheme, WeightScheme::fp8_channel);
  EXPECT_TRUE(result->kv_scheme);

  weights["strategy"] = "block";
  for (const Json& block : {Json::parse("[128,64]"), Json("128x64")}) {
    weights["block_structure"] = block;
    result = read_quantization(Json{{"text_config", {{"quantization_config", config}}}});
    ASSERT_TRUE(result) << message_of(result);
    EXPECT_EQ(result->scheme, WeightScheme::fp8_block);
    EXPECT_EQ(result->block_rows, 128);
    EXPECT_EQ(result->block_cols, 64);
  }

  config["config_groups"]["group_1"] = {{"targets", {"re:.*down"}}, {"weights", kFp8}};
  config["config_groups"]["group_2"] = {{"targets", {"Attention"}}, {"input_activations", kFp8}, {"weights", nullptr}};
  result = read(config);
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_EQ(result->scheme, WeightScheme::mixed);
  EXPECT_EQ(result->block_rows, 128);

  config.erase("quant_method");
  EXPECT_TRUE(read(config)) << "old files leave it out";
}

TEST(Quantization, Fp8AndModelopt) {
  auto result = read(Json::parse(R"({"quant_method":"fp8","activation_scheme":"dynamic","fmt":"e4m3",
                                     "weight_block_size":[128,128],"modules_to_not_convert":["lm_head"]})"));
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_EQ(result->scheme, WeightScheme::fp8_block);
  EXPECT_EQ(result->block_cols, 128);
  result = read(Json::parse(R"({"quant_method":"fp8","activation_scheme":"static"})"));
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_EQ(result->scheme, WeightScheme::fp8_tensor);
  result = read(Json::parse(R"({"quant_method":"modelopt","quant_algo":"FP8"})"));
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_EQ(result->scheme, WeightScheme::fp8_tensor);
}

TEST(Quantization, Mxfp4) {
  const auto result = read({{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}});
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_EQ(result->scheme, WeightScheme::mxfp4);
  EXPECT_NE(result->description.find("mxfp4"), std::string::npos);
  refuses({{"quant_method", "mxfp4"}, {"modules_to_not_convert", "lm_head"}}, "must be a list of strings",
          ErrorKind::invalid);
}

TEST(Quantization, PackedInt4) {
  Json config = compressed();
  config["format"] = "pack-quantized";
  Json& group = config["config_groups"]["group_0"];
  group["input_activations"] = nullptr;
  group["weights"] = {{"num_bits", 4},    {"type", "int"},     {"strategy", "group"},
                      {"group_size", 32}, {"symmetric", true}, {"dynamic", false}};
  const auto result = read(config);
  ASSERT_TRUE(result) << message_of(result);
  EXPECT_EQ(result->scheme, WeightScheme::int4);
  EXPECT_NE(result->description.find("int4 per group of 32"), std::string::npos);
  for (const auto& [key, value, part] : {std::tuple<const char*, Json, const char*>{"group_size", 128, "group of 128"},
                                         {"symmetric", false, "asymmetric"},
                                         {"num_bits", 8, "int8"},
                                         {"actorder", "group", "reordered"}}) {
    Json other = config;
    other["config_groups"]["group_0"]["weights"][key] = value;
    refuses(other, part);
  }
}

TEST(Quantization, RefusesOtherMethodsByName) {
  for (const char* method : {"awq", "gptq", "bitsandbytes", "nvfp4", "hqq", "aqlm", "fbgemm_fp8", "quark", "torchao"})
    refuses({{"quant_method", method}}, "quantization " + std::string(method) + " is not supported");
  refuses({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}, "modelopt NVFP4");
  refuses({{"quant_method", "fp8"}, {"fmt", "e5m2"}}, "fp8 with fmt e5m2");
  for (const char* format :
       {"pack-quantized", "int-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "marlin-24"}) {
    Json config = compressed();
    config["format"] = format;
    refuses(config, "compressed-tensors " + std::string(format));
    config["format"] = "mixed-precision";
    config["config_groups"]["group_0"]["format"] = format;
    refuses(config, "compressed-tensors " + std::string(format));
  }
}

TEST(Quantization, RefusesArgumentsThatItCannotHonour) {
  const std::vector<std::tuple<std::string, Json, std::string>> cases = {
      {"/config_groups/group_0/weights/num_bits", 4, "float4 per tensor"},
      {"/config_groups/group_0/weights/type", "int", "int8 per tensor"},
      {"/config_groups/group_0/weights/strategy", "group", "float8 per group"},
      {"/config_groups/group_0/weights/symmetric", false, "asymmetric"},
      {"/config_groups/group_0/weights/dynamic", true, "weights float8"},
      {"/config_groups/group_0/input_activations/type", "int", "inputs int8"},
      {"/config_groups/group_0/output_activations", Json{{"num_bits", 8}, {"type", "int"}}, "outputs int8"},
      {"/sparsity_config", Json{{"format", "sparse-24-bitmask"}}, "sparsity_config of format \"sparse-24-bitmask\""},
      {"/transform_config", Json{{"config_groups", {{"u", 1}}}}, "transform_config"},
      {"/kv_cache_scheme", Json{{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}},
       "kv_cache_scheme float8 per channel"},
      {"/kv_cache_scheme", Json{{"num_bits", 4}, {"type", "float"}}, "kv_cache_scheme float4 per tensor"},
      {"/kv_cache_scheme", Json{{"num_bits", 8}, {"type", "int"}}, "kv_cache_scheme int8 per tensor"},
      {"/kv_cache_scheme", Json{{"type", "float"}, {"dynamic", true}}, "(dynamic)"},
  };
  for (const auto& [place, value, expected] : cases) {
    Json config = compressed();
    config[Json::json_pointer(place)] = value;
    refuses(config, expected);
  }
}

TEST(Quantization, RefusesWhatMakesNoSense) {
  refuses(5, "must be an object or null", ErrorKind::invalid);
  refuses({{"bits", 4}}, "\"quant_method\" is missing", ErrorKind::invalid);
  refuses({{"quant_method", 3}}, "\"quant_method\" must be a string", ErrorKind::invalid);
  const std::vector<std::tuple<std::string, Json, std::string>> cases = {
      {"/config_groups", 3, "\"config_groups\" must be an object"},
      {"/config_groups/group_0", 3, "config_groups.group_0: must be an object"},
      {"/config_groups/group_0/targets", 3, "\"targets\" must be a list"},
      {"/config_groups/group_0/targets", Json::array(), "\"targets\" must name"},
      {"/config_groups/group_0/targets", Json::array({1}), "\"targets\" must be a list of strings"},
      {"/config_groups/group_0/weights", "fp8", "weights: must be an object"},
      {"/config_groups/group_0/weights/num_bits", "8", "\"num_bits\" must be a whole number"},
      {"/config_groups/group_0/weights/dynamic", 3, "\"dynamic\" must be"},
      {"/config_groups/group_0/weights/block_structure", 3, "block size must be a list"},
      {"/config_groups/group_0/weights/block_structure", Json::array({0, 128}), "a block size of 0"},
      {"/config_groups/group_0/weights/block_structure", "128x", "must look like 128x128"},
      {"/config_groups/group_0/weights/strategy", "block", "needs a block_structure"},
      {"/ignore", "lm_head", "\"ignore\" must be a list"},
      {"/ignore", Json::array({1}), "\"ignore\" must be a list of strings"},
      {"/kv_cache_scheme", "fp8", "kv_cache_scheme: must be an object"},
  };
  for (const auto& [place, value, expected] : cases) {
    Json config = compressed();
    config[Json::json_pointer(place)] = value;
    refuses(config, expected, ErrorKind::invalid);
  }
  refuses(Json::parse(R"({"quant_method":"fp8","weight_block_size":[128]})"), "weight_block_size", ErrorKind::invalid);
  refuses(Json::parse(R"({"quant_method":"fp8","weight_block_size":[128,99999999999]})"), "weight_block_size",
          ErrorKind::invalid);
}

}  // namespace
}  // namespace octavo
