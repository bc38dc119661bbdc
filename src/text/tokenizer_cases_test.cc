// Tokenizers against cases made by Hugging Face's `tokenizers`: our own small ones (tests/fixtures/tokenizers, made by
// make.py there), and the vendors' where OCTAVO_FIXTURES leads to them.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace octavo {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<Json> read_cases(const std::string& path) {
  std::vector<Json> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto json = parse_json(line, path);
    EXPECT_TRUE(json) << json.error().message();
    if (json) cases.push_back(*json);
  }
  return cases;
}

std::string unpack(const std::string& path) {
  std::string text;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("gzip -dc '" + path + "'").c_str(), "r"), pclose);
  std::array<char, 65536> buffer;
  for (std::size_t n; pipe && (n = fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
    text.append(buffer.data(), n);
  return text;
}

template <class T>
std::vector<T> list(const Json& object, const char* key) {
  return object.contains(key) ? object[key].get<std::vector<T>>() : std::vector<T>();
}

Vocabulary vocabulary_of(const Json& json) {
  Vocabulary v;
  v.model = json["model"].get<std::string>();
  v.pre = json.value("pre", "");
  v.tokens = list<std::string>(json, "tokens");
  v.types = list<std::int32_t>(json, "types");
  v.scores = list<float>(json, "scores");
  v.merges = list<std::string>(json, "merges");
  for (const auto& [key, field] : {std::pair("bos", &v.bos), std::pair("eos", &v.eos), std::pair("unk", &v.unk)})
    if (json.contains(key)) *field = json[key].get<int>();
  if (json.contains("add_space_prefix")) v.add_space_prefix = json["add_space_prefix"].get<bool>();
  return v;
}

Result<Tokenizer> read_tokenizer(const std::string& folder) {
  if (file_exists(folder + "/vocabulary.json")) {
    OCTAVO_TRY(const Json json, read_json_file(folder + "/vocabulary.json"));
    return Tokenizer::from_vocabulary(vocabulary_of(json));
  }
  const std::string packed = folder + "/tokenizer.json.gz";
  OCTAVO_TRY(const Json json,
             file_exists(packed) ? parse_json(unpack(packed), packed) : read_json_file(folder + "/tokenizer.json"));
  return Tokenizer::from_json(json, nullptr);
}

std::string stream(const Tokenizer& tokenizer, const Ids& ids, const DecodeOptions& options) {
  StreamDecoder decoder(tokenizer, options);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

void expect_decoded(const Tokenizer& tokenizer, const Ids& ids, const Json& c) {
  const auto decoded = c["decoded"].get<std::string>();
  const auto skipped = c.value("decoded_skip_special", decoded);
  EXPECT_EQ(tokenizer.decode(ids), decoded);
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special = true}), skipped);
  EXPECT_EQ(stream(tokenizer, ids, {}), decoded);
  EXPECT_EQ(stream(tokenizer, ids, {.skip_special = true}), skipped);
}

void expect_encoded(const Tokenizer& tokenizer, const Json& c) {
  const auto text = c["text"].get<std::string>();
  const auto ids = list<std::int32_t>(c, "ids");
  const auto encoded = tokenizer.encode(text);
  ASSERT_TRUE(encoded) << encoded.error().message();
  EXPECT_EQ(*encoded, ids) << c["text"];
  const Ids plain = c.contains("plain_ids") ? c["plain_ids"].get<Ids>() : ids;
  EXPECT_EQ(*tokenizer.encode(text, {.parse_special = !c.contains("plain_ids")}), plain) << c["text"];
  Ids around = list<std::int32_t>(c, "bos_ids");
  const Ids behind = list<std::int32_t>(c, "eos_ids");
  around.insert(around.end(), ids.begin(), ids.end());
  around.insert(around.end(), behind.begin(), behind.end());
  EXPECT_EQ(*tokenizer.encode(text, {.add_special = true}), around);
}

// Our own files leave out what is the same for all: the text (line n is text n of texts.json), and `decoded` = text.
std::vector<Json> encode_cases(const std::string& folder) {
  auto cases = read_cases(folder + "/cases.jsonl");
  const auto texts = read_json_file(folder + "/../texts.json");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!cases[i].contains("text")) cases[i]["text"] = texts->at(i);
    if (!cases[i].contains("decoded")) cases[i]["decoded"] = cases[i]["text"];
  }
  return cases;
}

void run_cases(const std::string& folder) {
  SCOPED_TRACE(folder);
  const auto tokenizer = read_tokenizer(folder);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message();
  const auto cases = encode_cases(folder);
  ASSERT_FALSE(cases.empty());
  for (const Json& c : cases) {
    expect_encoded(*tokenizer, c);
    expect_decoded(*tokenizer, list<std::int32_t>(c, "ids"), c);
  }
  for (const Json& c : read_cases(folder + "/decode_cases.jsonl"))
    expect_decoded(*tokenizer, list<std::int32_t>(c, "ids"), c);
}

std::set<std::string> folders(const std::string& root) {
  std::set<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error))
    if (file_exists(entry.path().string() + "/cases.jsonl")) found.insert(entry.path().string());
  return found;
}

TEST(TokenizerCases, OurOwn) {
  const auto own = folders(std::string(OCTAVO_SOURCE_DIR) + "/tests/fixtures/tokenizers");
  EXPECT_EQ(own.size(), 18u);
  for (const std::string& folder : own) run_cases(folder);
}

class VendorCases : public testing::TestWithParam<const char*> {};

TEST_P(VendorCases, AllEqual) {
  const char* fixtures = std::getenv("OCTAVO_FIXTURES");
  const std::string folder = std::string(fixtures == nullptr ? "" : fixtures) + "/tokenizers/" + GetParam();
  if (!file_exists(folder + "/cases.jsonl")) {
    std::puts("270 cases not run: set OCTAVO_FIXTURES");
    return;
  }
  run_cases(folder);
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, VendorCases,
                         testing::Values("llama3_1", "qwen3", "gptoss", "gemma3", "deepseek_v3"),
                         [](const auto& suite) { return std::string(suite.param); });

}  // namespace
}  // namespace octavo
