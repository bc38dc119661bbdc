#include "engine/text_assets.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace octavo {
namespace {

constexpr const char* kTokenizer = R"({"version": "1.0", "added_tokens": [
  {"id": 2, "content": "<s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
  "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": null, "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}})";

class TextAssets : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "octavo-words-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ + "/" + name) << text; }
  Checkpoint open() const { return *Checkpoint::open_text(folder_); }
  Result<TemplateAsset> load(const std::string& override_path = "") const {
    return load_chat_template(open(), override_path);
  }

  std::string folder_;
};

TEST_F(TextAssets, ATokenizerComesFromItsFile) {
  write("tokenizer.json", kTokenizer);
  const auto tokenizer = load_tokenizer(open());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  EXPECT_EQ(*tokenizer->encode("ab<s>"), (std::vector<std::int32_t>{0, 1, 2}));
}

TEST_F(TextAssets, AMissingOrBrokenTokenizerIsOneSentence) {
  EXPECT_EQ(load_tokenizer(open()).error().message(),
            folder_ + " has no tokenizer.json, and octavo reads tokenizers from that file or from GGUF metadata");
  write("tokenizer.json", "{\"model\": ");
  EXPECT_TRUE(load_tokenizer(open()).error().message().starts_with("tokenizer.json: "))
      << load_tokenizer(open()).error().message();
}

TEST_F(TextAssets, ATemplateMayStandInThreePlaces) {
  write("chat_template.json", R"({"chat_template": "third"})");
  EXPECT_EQ(load()->source, "chat_template.json");
  write("tokenizer_config.json", R"({"chat_template": "second"})");
  EXPECT_EQ(load()->source, "tokenizer_config.json");
  write("chat_template.jinja", "first");
  EXPECT_EQ(load()->source, "chat_template.jinja");
  write("mine.jinja", "mine");
  const auto given = load(folder_ + "/mine.jinja");
  EXPECT_EQ(given->chat_template.source(), "mine");
  EXPECT_EQ(given->source, "--chat-template " + folder_ + "/mine.jinja");
}

TEST_F(TextAssets, OfSeveralTemplatesTheDefaultIsMeant) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]})");
  EXPECT_EQ(load()->chat_template.source(), "yes");
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "no"}, {"name": "rag", "template": "no"}]})");
  EXPECT_EQ(load().error().message(),
            "tokenizer_config.json: none of its chat templates (tool_use, rag) is named default; give one with "
            "--chat-template");
  write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_EQ(load().error().message(),
            "tokenizer_config.json: chat_template is neither a text nor a list of named texts");
}

TEST_F(TextAssets, SpecialTokensAreVariablesInEitherSpelling) {
  write(
      "tokenizer_config.json",
      R"({"chat_template": "{{ bos_token }}", "bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null})");
  write("special_tokens_map.json", R"({"bos_token": "other", "pad_token": {"content": "<pad>"}})");
  const auto asset = load();
  ASSERT_TRUE(asset) << asset.error().message();
  EXPECT_EQ(asset->special, OrderedJson::parse(R"({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"})"));
  EXPECT_EQ(*asset->chat_template.render(asset->special), "<s>");
}

TEST_F(TextAssets, NoTemplateSaysWhereItWasLookedFor) {
  EXPECT_EQ(load().error().message(),
            folder_ +
                " has no chat template: neither chat_template.jinja nor the key chat_template in tokenizer_config.json "
                "or chat_template.json is there; give one with --chat-template");
  EXPECT_FALSE(load(folder_ + "/nowhere.jinja"));
  write("chat_template.jinja", "{% for %}");
  EXPECT_TRUE(load().error().message().starts_with("chat_template.jinja: ")) << load().error().message();
}

}  // namespace
}  // namespace octavo
