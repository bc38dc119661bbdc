#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include "checkpoint/test_files.h"

namespace octavo {
namespace {

using namespace octavo::testing;

std::string weights(const std::string& name) { return safetensors_bytes({{name, "F32", {1}, raw(1.0f)}}); }

void refuses(const std::string& path, const std::string& expected, LoadFormat format = LoadFormat::automatic) {
  const auto checkpoint = Checkpoint::open(path, format);
  ASSERT_FALSE(checkpoint) << expected;
  EXPECT_NE(checkpoint.error().message().find(expected), std::string::npos) << checkpoint.error().message();
}

TEST(Checkpoint, OpensASingleFile) {
  const TemporaryDirectory d;
  d.write("config.json", R"({"model_type":"house"})");
  d.write("model.safetensors", weights("a"));
  d.write("tokenizer.json", "{}");
  const auto checkpoint = Checkpoint::open(d.path());
  ASSERT_TRUE(checkpoint) << message_of(checkpoint);
  EXPECT_EQ(checkpoint->format(), LoadFormat::safetensors);
  EXPECT_EQ(checkpoint->config()["model_type"], "house");
  EXPECT_TRUE(checkpoint->generation_config().is_object());
  EXPECT_EQ(checkpoint->gguf(), nullptr);
  ASSERT_NE(checkpoint->find("a"), nullptr);
  EXPECT_EQ(checkpoint->find("b"), nullptr);
  EXPECT_EQ(*checkpoint->read_text("tokenizer.json"), "{}");
  EXPECT_EQ(*checkpoint->read_text("none.json"), std::nullopt);
}

TEST(Checkpoint, OpensShards) {
  const TemporaryDirectory d;
  d.write("config.json", "{}");
  d.write("generation_config.json", R"({"eos_token_id":[1,2]})");
  d.write("model-1.safetensors", weights("a"));
  d.write("model-2.safetensors", weights("b"));
  d.write("model.safetensors.index.json", R"({"weight_map":{"b":"model-2.safetensors","a":"model-1.safetensors"}})");
  const auto checkpoint = Checkpoint::open(d.path());
  ASSERT_TRUE(checkpoint) << message_of(checkpoint);
  EXPECT_EQ(checkpoint->generation_config()["eos_token_id"].size(), 2u);
  EXPECT_EQ(checkpoint->find("b")->file, d.path("model-2.safetensors"));
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
}

TEST(Checkpoint, OpensGgufAndDummy) {
  const TemporaryDirectory d;
  GgufParts parts;
  parts.tensors = {tensor_record("t", {1}, 0, 0)};
  parts.data = raw(4.0f);
  const auto gguf = Checkpoint::open(d.write("x.gguf", parts.bytes()));
  ASSERT_TRUE(gguf) << message_of(gguf);
  EXPECT_EQ(gguf->format(), LoadFormat::gguf);
  EXPECT_NE(gguf->gguf(), nullptr);
  EXPECT_NE(gguf->find("t"), nullptr);
  EXPECT_EQ(*gguf->read_text("x.gguf"), std::nullopt);
  EXPECT_TRUE(gguf->config().empty());

  d.write("config.json", R"({"a":1})");
  const auto dummy = Checkpoint::open(d.path(), LoadFormat::dummy);
  ASSERT_TRUE(dummy) << message_of(dummy);
  EXPECT_TRUE(dummy->tensors().empty());
  EXPECT_EQ(dummy->config()["a"], 1);
}

TEST(Checkpoint, NamesWhatIsMissing) {
  const TemporaryDirectory d;
  refuses(d.path("none"), "no such file or directory");
  refuses(d.path(), d.path("config.json") + ": does not exist");
  const std::string gguf = d.write("x.gguf", "GGUF");
  refuses(d.path(), "give its path " + gguf);
  refuses(d.path(), "one .gguf file", LoadFormat::gguf);
  refuses(gguf, "a directory with config.json is needed", LoadFormat::safetensors);
  refuses(gguf, "a directory with config.json is needed", LoadFormat::dummy);
  refuses(gguf, "truncated");
  refuses(d.write("text", "hello world, this is no model"), "not a GGUF file");
  refuses(d.write("other.safetensors", weights("a")), "give the directory");
  d.write("config.json", "{}");
  const TemporaryDirectory torch;
  torch.write("config.json", "{}");
  refuses(torch.path(), "neither model.safetensors nor model.safetensors.index.json");
  torch.write("pytorch_model.bin", "x");
  refuses(torch.path(), "convert them to safetensors");
}

TEST(Checkpoint, RefusesBrokenConfigs) {
  const TemporaryDirectory d;
  d.write("model.safetensors", weights("a"));
  for (const char* text : {"", "{", "[]", "5", "{\"a\":NaN}", "{\"a\":1}}"}) {
    d.write("config.json", text);
    refuses(d.path(), d.path("config.json"));
  }
  d.write("config.json", "{}");
  d.write("generation_config.json", "[");
  refuses(d.path(), d.path("generation_config.json"));
}

TEST(Checkpoint, RefusesBrokenIndexes) {
  const TemporaryDirectory d;
  d.write("config.json", "{}");
  d.write("m1.safetensors", weights("a"));
  d.write("m2.safetensors", weights("b"));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "index.json"},
      {"{}", "\"weight_map\" must be an object"},
      {R"({"weight_map":[]})", "\"weight_map\" must be an object"},
      {R"({"weight_map":{}})", "\"weight_map\" must be an object"},
      {R"({"weight_map":{"a":1}})", "tensor \"a\": its file name must be a string"},
      {R"({"weight_map":{"a":"../m1.safetensors"}})", "is not the name of a file beside the index"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "is not the name of a file beside the index"},
      {R"({"weight_map":{"a":""}})", "is not the name of a file beside the index"},
      {R"({"weight_map":{"a":"m1.safetensors","b":"m3.safetensors"}})",
       "m3.safetensors: this shard is missing (1 of 2"},
      {R"({"weight_map":{"c":"m1.safetensors"}})", "tensor \"c\" is not in m1.safetensors"},
      {R"({"weight_map":{"a":"m1.safetensors","b":"m1.safetensors"}})", "tensor \"b\" is not in m1.safetensors"},
  };
  for (const auto& [text, expected] : cases) {
    d.write("model.safetensors.index.json", text);
    refuses(d.path(), expected);
  }
  d.write("m2.safetensors", weights("a"));
  d.write("model.safetensors.index.json", R"({"weight_map":{"a":"m1.safetensors","b":"m2.safetensors"}})");
  refuses(d.path(), "tensor \"a\" is in both m1.safetensors and m2.safetensors");
  d.write("m2.safetensors", weights("b").substr(0, 30));
  refuses(d.path(), "m2.safetensors");
}

}  // namespace
}  // namespace octavo
