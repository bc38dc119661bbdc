#include "server/answer_form.h"

#include <gtest/gtest.h>

#include "server/test_words.h"

namespace octavo {
namespace {

FormFacts facts(const Words& words) {
  return {.id = "abc",
          .created = 1700000000,
          .model = "ti\"ny",
          .tokenizer = &words.tokenizer,
          .prompts = {{.ids = {kByte0 + 'h', kByte0 + 'i'}, .echo = "hi"}},
          .echo = false,
          .logprobs = {},
          .prompt_logprobs = {}};
}

Piece text_piece(const std::string& text, bool first, const std::string& finish = "") {
  Piece piece;
  piece.first = first;
  piece.delta.content = text;
  piece.finish = finish;
  return piece;
}

std::vector<Json> parsed(const std::vector<std::string>& chunks) {
  std::vector<Json> result;
  for (const std::string& chunk : chunks) {
    EXPECT_EQ(chunk.find('\n'), std::string::npos) << "an event's data is one line";
    result.push_back(Json::parse(chunk));
  }
  return result;
}

TEST(AnswerForm, ChatChunksBeginWithTheRoleAndEndWithTheReason) {
  const Words words = test_words();
  const auto form = make_chat_form(facts(words));
  const auto chunks = parsed(form->chunks(text_piece("a\nb\"", true, "stop"), nullptr));
  ASSERT_EQ(chunks.size(), 3u);
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk["id"], "chatcmpl-abc");
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["created"], 1700000000);
    EXPECT_EQ(chunk["model"], "ti\"ny");
    EXPECT_EQ(chunk["choices"][0]["index"], 0);
    EXPECT_FALSE(chunk.contains("usage"));
  }
  EXPECT_EQ(chunks[0]["choices"][0]["delta"], Json({{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(chunks[1]["choices"][0]["delta"], Json({{"content", "a\nb\""}}));
  EXPECT_TRUE(chunks[1]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(chunks[2]["choices"][0]["delta"], Json::object());
  EXPECT_EQ(chunks[2]["choices"][0]["finish_reason"], "stop");
}

TEST(AnswerForm, UsageComesLastWithoutChoices) {
  const Words words = test_words();
  const Usage usage{.prompt_tokens = 5, .completion_tokens = 7, .cached_tokens = 3};
  const Json chunk = Json::parse(make_chat_form(facts(words))->usage_chunk(usage));
  EXPECT_EQ(chunk["choices"], Json::array());
  EXPECT_EQ(chunk["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(chunk["usage"]["completion_tokens"], 7);
  EXPECT_EQ(chunk["usage"]["total_tokens"], 12);
  EXPECT_EQ(chunk["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  const auto continuous = parsed(make_chat_form(facts(words))->chunks(text_piece("a", false), &usage));
  EXPECT_EQ(continuous.at(0)["usage"]["total_tokens"], 12);
}

TEST(AnswerForm, AWholeChatHasWhatStrictReadersValidate) {
  const Words words = test_words();
  FormFacts asked = facts(words);
  asked.logprobs = 1;
  const auto form = make_chat_form(asked);
  Piece piece = text_piece("A", true, "length");
  piece.tokens.push_back({kByte0 + 'A', {.logprob = -INFINITY, .rank = 1, .top = {{kByte0 + 0xE2, -0.5f}}}});
  const Json whole = Json::parse(form->whole({piece}, {.prompt_tokens = 2, .completion_tokens = 1}));
  EXPECT_EQ(whole["object"], "chat.completion");
  const Json& choice = whole["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "A");
  EXPECT_EQ(choice["finish_reason"], "length");
  const Json& entry = choice["logprobs"]["content"][0];
  EXPECT_EQ(entry["token"], "A");
  EXPECT_EQ(entry["logprob"], -9999.0) << "JSON has no infinity";
  EXPECT_EQ(entry["bytes"], Json::array({65}));
  EXPECT_EQ(entry["top_logprobs"][0]["bytes"], Json::array({0xE2}));
  EXPECT_EQ(entry["top_logprobs"][0]["token"], "\xEF\xBF\xBD") << "a part of a character";
}

TEST(AnswerForm, ToolCallsAreNumberedAndContentIsNullBesideThem) {
  const Words words = test_words();
  Piece piece;
  piece.delta.tool_calls = {{0, "c1", "f", "{\"a\":"}};
  const auto chunks = parsed(make_chat_form(facts(words))->chunks(piece, nullptr));
  const Json& call = chunks.at(0)["choices"][0]["delta"]["tool_calls"][0];
  EXPECT_EQ(call, Json::parse(R"({"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}})"));
  EXPECT_EQ(chunks.at(1)["choices"][0]["delta"],
            Json::parse(R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]})"));
  AnswerDelta more;
  more.tool_calls = {{0, "", "", "1}"}, {1, "c2", "g", "{}"}};
  piece.delta.append(more);
  piece.finish = "tool_calls";
  const Json message = Json::parse(make_chat_form(facts(words))->whole({piece}, {}))["choices"][0]["message"];
  EXPECT_TRUE(message["content"].is_null());
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
}

TEST(AnswerForm, EchoedCompletionsScoreThePrompt) {
  const Words words = test_words();
  FormFacts asked = facts(words);
  asked.echo = true;
  asked.logprobs = 1;
  asked.prompts[0] = {.ids = {kByte0 + 0xC3, kByte0 + 0xA9, kByte0 + 'i'}, .echo = "\xC3\xA9i"};
  const auto form = make_completion_form(asked);
  const float chosen = -0.30000001f;
  form->set_prompt_rows(0, {{},
                            {.logprob = -1.5f, .rank = 2, .top = {{kByte0 + 0xA8, -0.25f}}},
                            {.logprob = chosen, .rank = 1, .top = {{kByte0 + 'i', chosen}}}});
  Piece piece = text_piece("!", true, "length");
  piece.tokens.push_back({kByte0 + '!', {.logprob = -2, .rank = 1, .top = {{kByte0 + '!', -2.0f}}}});
  const Json choice = Json::parse(form->whole({piece}, {}))["choices"][0];
  EXPECT_EQ(choice["text"], "\xC3\xA9i!");
  const Json& list = choice["logprobs"];
  EXPECT_EQ(list["tokens"], Json::array({"bytes:\\xc3", "bytes:\\xa9", "i", "!"}));
  EXPECT_EQ(list["text_offset"], Json::array({0, 1, 1, 2}));
  EXPECT_TRUE(list["token_logprobs"][0].is_null() && list["top_logprobs"][0].is_null());
  EXPECT_EQ(list["token_logprobs"].size(), 4u);
  EXPECT_EQ(list["top_logprobs"][1], Json({{"bytes:\\xa8", -0.25}, {"bytes:\\xa9", -1.5}}));
  EXPECT_EQ(list["top_logprobs"][2]["i"], list["token_logprobs"][2]) << "the same number to the bit";
}

TEST(AnswerForm, TokensMayBeShownAsIds) {
  const Words words = test_words();
  FormFacts asked = facts(words);
  asked.prompts[0].ids = {7, 8};
  asked.token_ids = true;
  Piece piece = text_piece("A", true, "stop");
  piece.tokens = {{kByte0 + 'A', {}}, {2, {}}};
  const Json ids = Json::array({kByte0 + 'A', 2});
  const Json chat = Json::parse(make_chat_form(asked)->whole({piece}, {}));
  EXPECT_EQ(chat["prompt_token_ids"], Json::array({7, 8}));
  EXPECT_EQ(chat["choices"][0]["token_ids"], ids);
  EXPECT_TRUE(chat["choices"][0]["logprobs"].is_null());
  const auto chunks = parsed(make_chat_form(asked)->chunks(piece, nullptr));
  EXPECT_EQ(chunks.at(0)["prompt_token_ids"], Json::array({7, 8}));
  EXPECT_EQ(chunks.at(1)["choices"][0]["token_ids"], ids);
  EXPECT_FALSE(chunks.at(2)["choices"][0].contains("token_ids"));
  for (const Json& answer : {Json::parse(make_completion_form(asked)->whole({piece}, {})),
                             parsed(make_completion_form(asked)->chunks(piece, nullptr)).at(0)}) {
    EXPECT_EQ(answer["choices"][0]["token_ids"], ids);
    EXPECT_EQ(answer["choices"][0]["prompt_token_ids"], Json::array({7, 8}));
  }
  asked.logprobs = 1;
  asked.tokens_as_ids = true;
  piece.tokens = {{kByte0 + 'A', {.logprob = -1, .rank = 2, .top = {{5, -0.5f}}}}};
  const Json named = Json::parse(make_chat_form(asked)->whole({piece}, {}))["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(named["token"], "token_id:" + std::to_string(kByte0 + 'A'));
  EXPECT_EQ(named["bytes"], Json::array({65})) << "what it stands for";
  EXPECT_EQ(named["top_logprobs"][0]["token"], "token_id:5");
  const Json list = Json::parse(make_completion_form(asked)->whole({piece}, {}))["choices"][0]["logprobs"];
  EXPECT_EQ(list["tokens"][0], named["token"]);
  EXPECT_EQ(list["top_logprobs"][0]["token_id:5"], -0.5);
}

TEST(AnswerForm, CompletionChunksCarryTheirOwnTokensOnly) {
  const Words words = test_words();
  FormFacts asked = facts(words);
  asked.logprobs = 0;
  const auto form = make_completion_form(asked);
  for (const char letter : {'a', 'b'}) {
    Piece piece = text_piece(std::string(1, letter), letter == 'a');
    piece.tokens.push_back({kByte0 + letter, {.logprob = -1, .rank = 1, .top = {}}});
    const Json choice = parsed(form->chunks(piece, nullptr)).at(0)["choices"][0];
    EXPECT_EQ(choice["logprobs"]["tokens"], Json::array({std::string(1, letter)}));
    EXPECT_EQ(choice["logprobs"]["text_offset"][0], letter == 'a' ? 0 : 1);
    EXPECT_EQ(choice["logprobs"]["top_logprobs"][0], Json({{std::string(1, letter), -1.0}}));
  }
}

}  // namespace
}  // namespace octavo
