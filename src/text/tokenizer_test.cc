#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "base/file.h"
#include "base/json.h"

namespace octavo {
namespace {

using Ids = std::vector<std::int32_t>;

std::string tokenizer_file(const std::string& name) {
  return std::string(OCTAVO_SOURCE_DIR) + "/tests/fixtures/tokenizers/" + name + "/tokenizer.json";
}

Json fixture_json(const std::string& name) { return *read_json_file(tokenizer_file(name)); }
Tokenizer fixture_tokenizer(const std::string& name) { return *Tokenizer::from_json(fixture_json(name), nullptr); }

TEST(Tokenizer, KnowsItsTokens) {
  const Json config = {{"bos_token", {{"content", "<s>"}}}, {"eos_token", "<|end|>"}};
  const Tokenizer t = *Tokenizer::from_json(fixture_json("bytes_ignore_merges"), &config);
  const int end = t.token_to_id("<|end|>").value();
  EXPECT_TRUE(t.is_special(end));
  EXPECT_FALSE(t.is_special(t.token_to_id("<tool>").value()));
  EXPECT_EQ(t.eos_id(), end);
  EXPECT_EQ(t.bos_id(), t.token_to_id("<s>"));
  EXPECT_EQ(Ids(t.prefix().begin(), t.prefix().end()), Ids{*t.bos_id()});
  EXPECT_TRUE(t.suffix().empty());
  EXPECT_EQ(t.token_bytes(t.token_to_id("Ġtoken,").value()), " token,");
  EXPECT_EQ(t.id_to_token(end), "<|end|>");
  EXPECT_FALSE(t.token_to_id("no such token"));
  EXPECT_FALSE(t.token_to_id(""));
  EXPECT_EQ(t.id_to_token(-1), "");
  EXPECT_EQ(t.token_bytes(t.vocab_size()), "");
  EXPECT_EQ(t.description(), "byte-level BPE, ignore_merges, " + std::to_string(t.vocab_size()) + " tokens");
}

// As transformers 4.56.2 encodes with this tokenizer.json (which has a BOS of its own) under these classes.
TEST(Tokenizer, LlamasClassPutsAroundATextWhatTheConfigSays) {
  const Json file = fixture_json("bytes_ignore_merges");
  const auto around = [&](const char* name, const Json& bos, const Json& eos) {
    Json config = {{"tokenizer_class", name}, {"bos_token", "<s>"}, {"eos_token", "<|end|>"}};
    if (!bos.is_null()) config["add_bos_token"] = bos;
    if (!eos.is_null()) config["add_eos_token"] = eos;
    const Tokenizer t = *Tokenizer::from_json(file, &config);
    const Ids ids = *t.encode("x", {.add_special = true});
    std::string text;
    for (const std::int32_t id : ids) text += t.id_to_token(id);
    return text;
  };
  for (const char* name : {"LlamaTokenizer", "LlamaTokenizerFast", "GemmaTokenizer", "GemmaTokenizerFast"}) {
    EXPECT_EQ(around(name, nullptr, nullptr), "<s>x") << name;
    EXPECT_EQ(around(name, true, false), "<s>x") << name;
    EXPECT_EQ(around(name, false, nullptr), "x") << name;
    EXPECT_EQ(around(name, false, true), "x<|end|>") << name;
  }
  EXPECT_EQ(around("PreTrainedTokenizerFast", false, true), "<s>x");
  const Json config = {{"tokenizer_class", "LlamaTokenizerFast"}, {"add_bos_token", "yes"}};
  EXPECT_NE(Tokenizer::from_json(file, &config).error().message().find("add_bos_token"), std::string::npos);
}

TEST(Tokenizer, BrokenUtf8Survives) {
  for (const char* name : {"bytes_ignore_merges", "bytes_three_splits", "characters_replace"}) {
    const Tokenizer t = fixture_tokenizer(name);
    for (const std::string text :
         {"\xFF", "a\x80 b", "\xE2\x82", "x\xE2\x82<|end|>\xF0\x9F", "\xC3\xC3\xA9", "\xED\xA0\x80"}) {
      std::string bytes;
      const Ids ids = *t.encode(text);
      for (const std::int32_t id : ids) bytes += t.token_bytes(id);
      EXPECT_EQ(bytes, text) << name;
    }
  }
  // No prefix is put behind a broken byte; without byte tokens it is unknown.
  EXPECT_EQ(fixture_tokenizer("characters_prepend")
                .decode(*fixture_tokenizer("characters_prepend")
                             .encode("a\xFF"
                                     "b")),
            "a\uFFFDb");
  const Tokenizer none = fixture_tokenizer("characters_metaspace_first");
  EXPECT_EQ(none.encode("\xFF\xFF")->size(), 1u);  // fused
}

TEST(Tokenizer, ManyThreadsEncodeAtOnce) {
  const Tokenizer t = fixture_tokenizer("bytes_nfc");
  std::string text;
  for (int i = 0; i < 400; ++i) text += "The cafe\u0301 keeps every token " + std::to_string(i) + ".\n";
  const Ids want = *t.encode(text);
  std::vector<std::thread> threads;
  std::vector<Ids> got(4);
  for (Ids& ids : got) threads.emplace_back([&] { ids = *t.encode(text); });
  for (auto& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_EQ(ids, want);
}

// Cutting a text anywhere must not matter to what repeats in it: the cache of pieces gives what merging gives.
TEST(Tokenizer, RepeatedPiecesAreAsTheFirst) {
  for (const char* name : {"bytes_cased", "bytes_digits_regex", "characters_replace"}) {
    const Tokenizer t = fixture_tokenizer(name);
    const std::string once = "Total = values[12] * weights; größer 缓存 😀 zzqj\n";
    const Ids ids = *t.encode(once);
    std::string many;
    Ids want;
    for (int i = 0; i < 200; ++i) {
      many += once;
      want.insert(want.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(*t.encode(many), want) << name;
  }
}

TEST(Tokenizer, LongTextsOfAnyKindTakeLinearTime) {
  const std::vector<std::string> kinds = {
      "a",   "A",    " ", "\n",     " \n",     "\t",           "1",  "!",  "'",       "ab", "é",
      "字",  "漢字", "😀", "한국어", "e\u0301", "\u0327\u0301", "x ", "<|", "<|end|>", "▁",  std::string(1, '\0'),
      "\xFF"};
  for (const char* name :
       {"bytes_ignore_merges", "bytes_nfc", "bytes_cased", "characters_prepend", "characters_metaspace_always"}) {
    const Tokenizer t = fixture_tokenizer(name);
    for (const std::string& kind : kinds) {
      std::string text;
      while (text.size() < 100'000) text += kind;
      const auto start = std::chrono::steady_clock::now();
      const auto ids = t.encode(text + "x");
      ASSERT_TRUE(ids) << ids.error().message();
      t.decode(*ids);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
          << name << " " << kind;  // not minutes
    }
  }
}

struct Broken {
  const char* what;
  std::function<void(Json&)> change;
  const char* says;
};

TEST(Tokenizer, CorruptFilesAreRefusedInOneSentence) {
  const Json number = 7, null = nullptr;
  const std::vector<Broken> cases = {
      {"model missing", [](Json& j) { j.erase("model"); }, "no model object"},
      {"model a list", [](Json& j) { j["model"] = Json::array(); }, "no model object"},
      {"other model", [](Json& j) { j["model"]["type"] = "Unigram"; }, "\"Unigram\" is not supported"},
      {"vocab missing", [](Json& j) { j["model"].erase("vocab"); }, "model.vocab"},
      {"vocab a list", [](Json& j) { j["model"]["vocab"] = Json::array({"a"}); }, "model.vocab"},
      {"id negative", [](Json& j) { j["model"]["vocab"]["a"] = -1; }, "outside 0 to"},
      {"id huge", [](Json& j) { j["model"]["vocab"]["a"] = 18446744073709551615u; }, "outside 0 to"},
      {"id large", [](Json& j) { j["model"]["vocab"]["a"] = 4000000000u; }, "outside 0 to"},
      {"id text", [](Json& j) { j["model"]["vocab"]["a"] = "5"; }, "not a whole number"},
      {"id fraction", [](Json& j) { j["model"]["vocab"]["a"] = 1.5; }, "not a whole number"},
      {"id twice", [](Json& j) { j["model"]["vocab"]["new"] = j["model"]["vocab"]["a"]; }, "belongs to two tokens"},
      {"merges missing", [](Json& j) { j["model"].erase("merges"); }, "model.merges"},
      {"merge of three", [](Json& j) { j["model"]["merges"].push_back("a b c"); }, "not a pair"},
      {"merge a number", [](Json& j) { j["model"]["merges"].push_back(3); }, "not a pair"},
      {"merge unknown", [](Json& j) { j["model"]["merges"].push_back("a nowhere"); }, "not in model.vocab"},
      {"unk unknown", [](Json& j) { j["model"]["unk_token"] = "nowhere"; }, "unk_token"},
      {"flag a text", [](Json& j) { j["model"]["ignore_merges"] = "yes"; }, "ignore_merges"},
      {"prefix", [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; }, "continuing_subword_prefix"},
      {"dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }, "dropout"},
      {"added no list", [](Json& j) { j["added_tokens"] = 3; }, "added_tokens"},
      {"added no id", [](Json& j) { j["added_tokens"][0].erase("id"); }, "has no id"},
      {"added other id", [](Json& j) { j["added_tokens"][0]["id"] = 5; }, "belongs to two tokens"},
      {"added no content", [](Json& j) { j["added_tokens"][0].erase("content"); }, "content"},
      {"added twice", [](Json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }, "occurs twice"},
      {"normalizer",
       [](Json& j) {
         j["normalizer"] = {{"type", "Precompiled"}};
       },
       "\"Precompiled\""},
      {"normalizer text", [](Json& j) { j["normalizer"] = "NFC"; }, "normalizer"},
      {"pre-tokenizer",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
       },
       "\"BertPreTokenizer\""},
      {"regex", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(["; },
       "class without an end"},
      {"pattern", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0].erase("pattern"); }, "has no pattern"},
      {"many steps",
       [](Json& j) {
         const Json digits = {{"type", "Digits"}};
         j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::vector<Json>(100'000, digits)}};
       },
       "more than 64 steps"},
      {"behavior", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Odd"; }, "\"Odd\""},
      {"decoder",
       [](Json& j) {
         j["decoder"] = {{"type", "CTC"}};
       },
       "\"CTC\""},
      {"strip",
       [](Json& j) {
         j["decoder"] = {{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}};
       },
       "start"},
      {"around",
       [](Json& j) {
         j["post_processor"] = {{"type", "BertProcessing"}};
       },
       "\"BertProcessing\""},
      {"around id", [](Json& j) { j["post_processor"]["processors"][1]["special_tokens"]["<s>"]["ids"] = {99999}; },
       "99999"},
      {"around none", [](Json& j) { j["post_processor"]["processors"][1]["special_tokens"] = Json::object(); },
       "no ids"},
  };
  for (const Broken& broken : cases) {
    Json json = fixture_json("bytes_ignore_merges");
    broken.change(json);
    const auto result = Tokenizer::from_json(json, nullptr);
    ASSERT_FALSE(result) << broken.what;
    EXPECT_NE(result.error().message().find(broken.says), std::string::npos)
        << broken.what << ": " << result.error().message();
    EXPECT_EQ(result.error().message().find('\n'), std::string::npos);
  }
  for (const Json& odd : {Json(), Json(3), Json::array(), Json::object(), Json("text")})
    EXPECT_FALSE(Tokenizer::from_json(odd, nullptr));
}

// Every value of the file replaced by every other kind of value: an error or a tokenizer that works, never a crash.
TEST(Tokenizer, AnyWrongTypeIsSurvived) {
  Json small = fixture_json("bytes_ignore_merges");
  Json vocabulary = Json::object(), merges = Json::array();
  for (const auto& [token, id] : small["model"]["vocab"].items())
    if (id.get<int>() < 260) vocabulary[token] = id;
  for (const Json& merge : small["model"]["merges"])
    if (merges.size() < 2 && vocabulary.contains(merge[0].get<std::string>() + merge[1].get<std::string>()))
      merges.push_back(merge);
  small["model"]["vocab"] = vocabulary;
  small["model"]["merges"] = merges;
  int refused = 0;
  for (const char* part : {"/added_tokens/0", "/model", "/pre_tokenizer", "/post_processor", "/decoder"}) {
    const Json flat = small.at(Json::json_pointer(part)).flatten();
    for (const auto& [path, old] : flat.items()) {
      if (std::string_view(path).starts_with("/vocab")) continue;
      for (const Json& value : {Json(), Json(-3), Json(1e300), Json("x"), Json::array(), Json::object(), Json(true)}) {
        Json json = small;
        json[Json::json_pointer(part + path)] = value;
        const auto result = Tokenizer::from_json(json, nullptr);
        EXPECT_TRUE(!result || result->encode("The token's 12\n\xFF <|end|>"));
        refused += !result;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

// Little that would become much: each would take hours or all of the memory.
TEST(Tokenizer, HostileFilesEndWithASentence) {
  const Json plain = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}}}, {"merges", Json::array()}}}};
  const Json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const Json by_match = {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "aa"}};
  const Json spaces = {{"type", "Metaspace"}, {"replacement", "  "}, {"split", false}};
  const Json apart = {{"type", "Split"}, {"pattern", {{"Regex", "."}}}, {"behavior", "Isolated"}};
  const Json marks = {{"type", "Metaspace"}, {"replacement", "#########"}, {"split", false}};
  const auto many = [](const char* key, int times, const std::vector<Json>& parts) {
    Json list = Json::array();
    for (int i = 0; i < times; ++i)
      for (const Json& part : parts) list.push_back(part);
    return Json{{"type", "Sequence"}, {key, list}};
  };
  const std::vector<std::pair<const char*, Json>> cases = {
      {"normalizer", many("normalizers", 60, {twice})},
      {"normalizer", many("normalizers", 60, {by_match})},
      {"normalizer", many("normalizers", 65, {{{"type", "NFC"}}})},
      {"normalizer", {{"type", "Prepend"}, {"prepend", std::string(10000, 'x')}}},
      {"pre_tokenizer", many("pretokenizers", 60, {spaces})},
      {"pre_tokenizer", many("pretokenizers", 20, {marks, apart})},
      {"decoder", many("decoders", 60, {twice})},
      {"decoder", many("decoders", 65, {{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}}})},
      {"added_tokens", {{{"id", 2}, {"content", std::string(5000, 'x')}}}},
      {"added_tokens", {{{"id", 8'000'000}, {"content", "x"}}}},
  };
  const auto start = std::chrono::steady_clock::now();
  for (const auto& [key, value] : cases) {
    Json json = plain;
    json[key] = value;
    const auto tokenizer = Tokenizer::from_json(json, nullptr);
    const auto ids = tokenizer ? tokenizer->encode("a b a") : Result<Ids>(tokenizer.error());
    ASSERT_FALSE(ids) << key << value.dump().substr(0, 200);
    EXPECT_LT(ids.error().message().size(), 500u);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

Vocabulary small_vocabulary() {
  Vocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab"};
  v.types = {2, 3, 3, 1, 1, 1, 1, 1};
  v.scores = {0, 0, 0, -3, -4, -5, -1, -2};
  v.bos = 1;
  v.eos = 2;
  v.unk = 0;
  return v;
}

// A GGUF file's tokens are any bytes; where they are joined by merges, not even their ends need be characters.
TEST(Tokenizer, TokensThatAreNotUtf8AreNeverText) {
  for (const std::string odd : {"\xF4\x80", "\xF4", "\x80", "\xE2\x82", "\xFF"}) {
    Vocabulary v = small_vocabulary();
    v.model = "gemma4";
    v.scores.clear();
    v.tokens.insert(v.tokens.end(), {odd, "a" + odd, odd + "b", odd + odd});
    v.types.resize(v.tokens.size(), 1);
    v.merges = {"a " + odd, odd + " b", odd + " " + odd, "a b"};
    const auto tokenizer = Tokenizer::from_vocabulary(v);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message();
    EXPECT_EQ(*tokenizer->encode("ab"), (Ids{6}));
    EXPECT_EQ(*tokenizer->encode("a" + odd + "b"), (Ids{4, 0, 5}));
  }
}

TEST(Tokenizer, VocabularyDefaultsAreTheCustomaryOnes) {
  Vocabulary v = small_vocabulary();
  EXPECT_EQ(*Tokenizer::from_vocabulary(v)->encode("ab", {.add_special = true}), (Ids{1, 7}));
  v.add_bos = false;
  v.add_eos = true;
  v.add_space_prefix = false;
  EXPECT_EQ(*Tokenizer::from_vocabulary(v)->encode("ab", {.add_special = true}), (Ids{6, 2}));
  EXPECT_EQ(*Tokenizer::from_vocabulary(v)->encode("a<s>xyb"), (Ids{4, 1, 0, 5}));
}

TEST(Tokenizer, WrongVocabulariesAreRefused) {
  const std::vector<std::pair<std::function<void(Vocabulary&)>, const char*>> cases = {
      {[](Vocabulary& v) { v.model = "bert"; }, "\"bert\" is not supported"},
      {[](Vocabulary& v) { v.tokens.clear(); }, "no tokens"},
      {[](Vocabulary& v) { v.types.pop_back(); }, "token types"},
      {[](Vocabulary& v) { v.scores.pop_back(); }, "scores"},
      {[](Vocabulary& v) { v.scores[3] = NAN; }, "not a number"},
      {[](Vocabulary& v) { v.tokens[5] = "a"; }, "occurs twice"},
      {[](Vocabulary& v) { v.tokens[5] = std::string(5000, 'b'); }, "more than 4096 bytes"},
      {[](Vocabulary& v) { v.bos = 8; }, "bos token id 8"},
      {[](Vocabulary& v) { v.eos = -1; }, "eos token id -1"},
      {[](Vocabulary& v) {
         v.model = "gpt2";
         v.pre = "nowhere";
       },
       "\"nowhere\" is not supported"},
      {[](Vocabulary& v) {
         v.model = "gpt2";
         v.pre = "gpt-2";
       },
       "no merges"},
      {[](Vocabulary& v) {
         v.model = "gpt2";
         v.merges = {"a c"};
       },
       "\"a c\""},
      {[](Vocabulary& v) {
         v.model = "gpt2";
         v.merges = {"a"};
       },
       "\"a\""},
      {[](Vocabulary& v) {
         v.model = "gpt2";
         v.merges = {""};
       },
       "does not join"},
  };
  for (const auto& [change, says] : cases) {
    Vocabulary v = small_vocabulary();
    change(v);
    const auto result = Tokenizer::from_vocabulary(v);
    ASSERT_FALSE(result) << says;
    EXPECT_NE(result.error().message().find(says), std::string::npos) << result.error().message();
  }
}

}  // namespace
}  // namespace octavo
