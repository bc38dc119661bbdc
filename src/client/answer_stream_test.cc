#include "client/answer_stream.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

struct Heard {
  std::string text, thought, finish;
  std::optional<AnswerUsage> usage;
  std::string error;  // or empty
};

Heard hear(const ReplyHead& head, const std::string& body, const Status& end = {}) {
  Heard heard;
  bool ended = false;
  AnswerStream stream(
      [&](const AnswerPiece& piece) {
        heard.text += piece.content;
        heard.thought += piece.reasoning;
        if (!piece.finish.empty()) heard.finish = piece.finish;
        if (piece.usage) heard.usage = piece.usage;
      },
      [&](const Status& status) {
        ended = true;
        if (!status) heard.error = status.error().message();
      });
  stream.on_head(head);
  stream.on_body(body);
  stream.on_end(end);
  EXPECT_TRUE(ended);
  return heard;
}

const ReplyHead kStream = {.status = 200, .content_type = "text/event-stream; charset=utf-8"};
const std::string kHello =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"another\"}},"
    "{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\",\"content\":\"lo\"}}]}\n\n";
const std::string kStop = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

TEST(AnswerStream, AWholeAnswer) {
  const Heard heard = hear(kStream, kHello + kStop + kUsage + kDone);
  EXPECT_EQ(heard.text, "Hello");
  EXPECT_EQ(heard.thought, "hm");
  EXPECT_EQ(heard.finish, "stop");
  EXPECT_EQ(heard.error, "");
  ASSERT_TRUE(heard.usage);
  EXPECT_EQ(heard.usage->prompt_tokens, 9);
  EXPECT_EQ(heard.usage->completion_tokens, 2);
  EXPECT_EQ(heard.usage->cached_tokens, 4);
}

TEST(AnswerStream, CompletionsAndAnswersThatAreNoStream) {
  EXPECT_EQ(hear(kStream, "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n" + kDone).text, "a");
  const ReplyHead whole = {.status = 200, .content_type = "application/json"};
  const Heard heard = hear(whole, "{\"choices\":[{\"message\":{\"content\":\"all\"},\"finish_reason\":\"length\"}]}");
  EXPECT_EQ(heard.text, "all");
  EXPECT_EQ(heard.finish, "length");
  EXPECT_EQ(heard.error, "");
}

TEST(AnswerStream, WhatStopsWithoutSayingSoIsNoWholeAnswer) {
  const Error gone("the connection broke", ErrorKind::unavailable);
  EXPECT_NE(hear(kStream, kHello).error.find("broke off"), std::string::npos);
  EXPECT_NE(hear(kStream, "").error.find("broke off"), std::string::npos);
  EXPECT_NE(hear(kStream, kHello, gone).error.find("broke off: the connection broke"), std::string::npos);
  EXPECT_EQ(hear(kStream, "", gone).error, "the connection broke");
  EXPECT_EQ(hear(kStream, kHello + kStop, gone).error, "");  // all that was to be said was said
  EXPECT_NE(hear(kStream, kHello + "data: {\"error\":{\"message\":\"overflow\"}}\n\n" + kDone)
                .error.find("broke off: overflow"),
            std::string::npos);
  EXPECT_NE(hear(kStream, "data: {\"error\":\"no\"}\n\n" + kDone).error.find("no"), std::string::npos);
  EXPECT_NE(hear(kStream, "data: {garbage\n\n" + kDone).error.find("not valid JSON"), std::string::npos);
}

TEST(AnswerStream, ARefusalIsOneSentence) {
  const std::string body = "{\"error\":{\"message\":\"queue\\nfull\",\"type\":\"x\",\"param\":null,\"code\":429}}";
  const std::string busy = hear({.status = 429, .content_type = "application/json", .retry_after = "7"}, body).error;
  EXPECT_EQ(busy, "the server is busy (429): queue full; it says to come back in 7 s");
  EXPECT_NE(hear({.status = 401}, "{\"error\":\"Unauthorized\"}").error.find("--api-key"), std::string::npos);
  EXPECT_NE(hear({.status = 400}, "{\"detail\":\"bad\"}").error.find("(400): bad"), std::string::npos);
  EXPECT_NE(hear({.status = 502}, "<html>Bad Gateway</html>").error.find("<html>Bad Gateway</html>"),
            std::string::npos);
  EXPECT_NE(hear({.status = 302}, "").error.find("--base-url"), std::string::npos);
  EXPECT_EQ(hear({.status = 500}, "").error, "the server failed (500)");
}

}  // namespace
}  // namespace octavo
