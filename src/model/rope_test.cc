// Rope against unit/rope.safetensors: frequencies and factors of published configurations, made by the reference
// library.

#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/safetensors.h"

namespace octavo {
namespace {

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  for (const StoredTensor& tensor : file.tensors)
    if (tensor.name == name) {
      std::vector<float> values(tensor.bytes.size() / sizeof(float));
      std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
      return values;
    }
  ADD_FAILURE() << name << " is not in the fixture";
  return {};
}

TEST(Rope, FrequenciesOfPublishedConfigurations) {
  const std::string folder = std::string(OCTAVO_SOURCE_DIR) + "/tests/fixtures/unit/";
  const auto file = read_safetensors(folder + "rope.safetensors");
  ASSERT_TRUE(file) << file.error().message();
  const auto cases = read_json_file(folder + "rope.json");
  ASSERT_TRUE(cases) << cases.error().message();
  for (const auto& [name, entry] : cases->items()) {
    Json config = Json::object();
    config["rope_parameters"] = entry.at("rope_parameters");
    const auto rope = read_rope(config, 131072, 10000.0);
    ASSERT_TRUE(rope) << name << ": " << rope.error().message();
    const int pairs = entry.at("pairs").get<int>();
    const RopeTable table =
        make_rope(*rope, rope->kind == "proportional" ? 2 * pairs : static_cast<int>(2 * pairs / rope->partial));
    EXPECT_NEAR(table.factor, entry.at("attention_factor").get<double>(), 1e-6) << name;
    const std::vector<float> expected = floats_of(*file, name + ".inv_freq");
    ASSERT_EQ(table.inv_freq.size(), expected.size()) << name;
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(table.inv_freq[i], expected[i], 3e-7f * expected[i]) << name << " pair " << i;
  }
}

TEST(Rope, FourSpellingsGiveOneTable) {
  const auto table_of = [](const char* text) {
    const auto rope = read_rope(*parse_json(text, "config"), 40960, 1e6);
    EXPECT_TRUE(rope) << text << (rope ? "" : rope.error().message());
    return make_rope(*rope, 128).inv_freq;
  };
  const auto expected = table_of(
      R"({"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}})");
  EXPECT_EQ(table_of(R"({"rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                         "original_max_position_embeddings": 32768}})"),
            expected);
  EXPECT_EQ(table_of(R"({"rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn", "factor": 4.0,
                         "original_max_position_embeddings": 32768}})"),
            expected);
  EXPECT_EQ(table_of(R"({"rope_parameters": {"rope_theta": 1e6, "type": "yarn", "factor": 4.0,
                         "original_max_position_embeddings": 32768}})"),
            expected);
}

TEST(Rope, WrongKeysAndKindsAreNamed) {
  const auto message = [](const char* text) {
    const auto rope = read_rope(*parse_json(text, "config"), 4096, 1e4);
    return rope ? std::string("accepted") : rope.error().message();
  };
  EXPECT_EQ(message(R"({"rope_scaling": {"rope_type": "yarn", "facter": 4.0}})"),
            "rope key \"facter\" is not known; did you mean \"factor\"?");
  EXPECT_NE(message(R"({"rope_scaling": {"rope_type": "spiral"}})").find("\"spiral\" is not supported"),
            std::string::npos);
  EXPECT_NE(message(R"({"rope_scaling": {"rope_type": "linear"}})").find("needs \"factor\""), std::string::npos);
  EXPECT_NE(message(R"({"rope_theta": "big"})").find("\"rope_theta\" must be a finite number"), std::string::npos);
  EXPECT_NE(message(R"({"rope_scaling": {"rope_type": "yarn", "factor": 0.5}})").find("at least 1"), std::string::npos);
  EXPECT_NE(message(R"({"rope_theta": 1, "rope_scaling": {"rope_type": "yarn", "factor": 4}})").find("above 1"),
            std::string::npos);
  EXPECT_NE(message(R"({"rope_scaling": {"factor": 8}})").find("no \"rope_type\""), std::string::npos);
  EXPECT_NE(message(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1}})")
                .find("needs \"high_freq_factor\""),
            std::string::npos);
  EXPECT_NE(message(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "high_freq_factor": 4}})")
                .find("needs \"low_freq_factor\""),
            std::string::npos);
  EXPECT_NE(message(R"({"rope_scaling": 4})").find("must be an object"), std::string::npos);
}

TEST(Rope, ScalingStretchesThePositions) {
  RopeConfig rope;
  rope.kind = "yarn";
  rope.factor = 4;
  rope.original_max_positions = 32768;
  EXPECT_EQ(rope_max_positions(rope, 40960), 131072);
  rope.kind = "llama3";
  EXPECT_EQ(rope_max_positions(rope, 131072), 131072);
}

}  // namespace
}  // namespace octavo
