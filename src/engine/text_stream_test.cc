#include "engine/text_stream.h"

#include <gtest/gtest.h>

#include <set>

#include "text/test_vocabulary.h"

namespace octavo {
namespace {

// Ids 3 to 258 are the bytes, and then a few longer pieces.
constexpr int kHel = 259, kLo = 260, kHello = 261, kSpaceWorld = 262;

Tokenizer make_tokenizer() {
  const Vocabulary v = byte_vocabulary({"hel", "lo", "hello", "\xC4\xA0world", "he"}, {"h e"});
  auto tokenizer = Tokenizer::from_vocabulary(v);
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message());
  return *std::move(tokenizer);
}

class Script final : public TokenStream {
 public:
  Script(std::vector<TokenEvent> events, std::set<int>& cancelled)
      : events_(std::move(events)), cancelled_(cancelled) {}
  std::optional<TokenEvent> next() override {
    if (at_ == events_.size()) return std::nullopt;
    return events_[at_++];
  }
  std::optional<TokenEvent> next_for(std::chrono::milliseconds, bool&) override { return next(); }
  void on_event(std::function<void()> wake) override { wake(); }
  void cancel() override { cancelled_.insert(-1); }
  void cancel_index(int index) override { cancelled_.insert(index); }

 private:
  std::vector<TokenEvent> events_;
  std::size_t at_ = 0;
  std::set<int>& cancelled_;
};

std::vector<TokenEvent> events_of(const std::vector<std::int32_t>& ids, FinishReason finish = FinishReason::length,
                                  int index = 0) {
  std::vector<TokenEvent> events;
  for (const std::int32_t id : ids) {
    TokenEvent event;
    event.index = index;
    event.token = id;
    events.push_back(event);
  }
  events.back().finish = finish;
  return events;
}

std::vector<std::int32_t> bytes_of(const std::string& text) {
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(kByte0 + static_cast<unsigned char>(c));
  return ids;
}

struct Read {
  std::vector<std::string> pieces;
  std::string text;
  std::optional<FinishReason> finish;
  std::string stop_reason;
  std::size_t num_tokens = 0;
  std::set<int> cancelled;
};

Read read(std::vector<TokenEvent> events, const SamplingParams& sampling) {
  static const Tokenizer tokenizer = make_tokenizer();
  Read result;
  TextStream stream(std::make_unique<Script>(std::move(events), result.cancelled), tokenizer, sampling);
  while (auto event = stream.next()) {
    EXPECT_FALSE(result.finish) << "nothing comes after the end";
    result.pieces.push_back(event->text);
    result.text += event->text;
    result.num_tokens += event->tokens.size();
    result.finish = event->finish;
    result.stop_reason = event->stop_reason;
  }
  return result;
}

TEST(TextStream, CharactersAreNeverSplit) {
  // An emoji of four bytes, two letters that were pieces, a lone byte of a character that never ends.
  std::vector<std::int32_t> ids = bytes_of("\xF0\x9F\x98\x80");
  ids.push_back(kHello);
  ids.push_back(kByte0 + 0xE2);
  const Read result = read(events_of(ids), {});
  EXPECT_EQ(result.text, "\xF0\x9F\x98\x80hello\xEF\xBF\xBD");
  EXPECT_EQ(result.finish, FinishReason::length);
  EXPECT_EQ(result.num_tokens, ids.size());
  for (const std::string& piece : result.pieces) EXPECT_TRUE(piece.empty() || (piece[0] & 0xC0) != 0x80) << piece;
}

TEST(TextStream, AStopStringCountsWhereverTokensCutIt) {
  SamplingParams sampling;
  sampling.stop = {"lo wor", "never"};
  const std::vector<std::vector<std::int32_t>> cuts = {
      {kHello, kSpaceWorld}, {kHel, kLo, kSpaceWorld}, bytes_of("hello world")};
  for (const auto& ids : cuts) {
    const Read result = read(events_of(ids), sampling);
    EXPECT_EQ(result.text, "hel");
    EXPECT_EQ(result.finish, FinishReason::stop);
    EXPECT_EQ(result.stop_reason, "lo wor");
  }
}

// Every way to cut "abcSTOPdef" into byte tokens and every place where the engine's own end comes.
TEST(TextStream, NoPartOfAStopStringLeaksAtAnySplit) {
  const std::string text = "abSTxSTOPde";
  SamplingParams sampling;
  sampling.stop = {"STOP"};
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const Read result = read(events_of(bytes_of(text.substr(0, end))), sampling);
    const bool stopped = end >= 9;
    EXPECT_EQ(result.text, stopped ? "abSTx" : text.substr(0, end)) << end;
    EXPECT_EQ(result.finish, stopped ? FinishReason::stop : FinishReason::length) << end;
    EXPECT_EQ(result.cancelled.contains(0), end > 9) << end;  // at 9 the engine had ended by itself
  }
  sampling.include_stop = true;
  EXPECT_EQ(read(events_of(bytes_of(text)), sampling).text, "abSTxSTOP");
}

TEST(TextStream, StopStringsDoNotCountBeforeMinTokens) {
  SamplingParams sampling;
  sampling.stop = {"ab"};
  sampling.min_tokens = 3;
  const Read result = read(events_of(bytes_of("ababab")), sampling);
  EXPECT_EQ(result.text, "abab");  // the second pair begins in the protected part
  EXPECT_EQ(result.finish, FinishReason::stop);
}

TEST(TextStream, AStopTokenIsNoText) {
  std::vector<TokenEvent> events = events_of({kHel, kLo});
  events.back().finish.reset();
  TokenEvent last;
  last.stop_token = 2;
  last.finish = FinishReason::stop;
  events.push_back(last);
  SamplingParams sampling;
  sampling.stop = {"lonely"};
  const Read result = read(events, sampling);
  EXPECT_EQ(result.text, "hello");  // what was held back for the stop string comes out
  EXPECT_EQ(result.finish, FinishReason::stop);
  EXPECT_EQ(result.stop_reason, "");
}

TEST(TextStream, ContinuationsAreReadApart) {
  SamplingParams sampling;
  sampling.n = 2;
  sampling.stop = {"lo"};
  std::vector<TokenEvent> events;
  const auto first = events_of(bytes_of("hel\xC3"), FinishReason::length, 0);
  const auto second = events_of(bytes_of("olo!"), FinishReason::cancelled, 1);
  for (std::size_t i = 0; i < 4; ++i) {
    events.push_back(first[i]);
    events.push_back(second[i]);
  }
  std::set<int> cancelled;
  TextStream stream(std::make_unique<Script>(events, cancelled), make_tokenizer(), sampling);
  std::string text[2];
  std::optional<FinishReason> finish[2];
  while (auto event = stream.next()) {
    text[event->index] += event->text;
    finish[event->index] = event->finish;
  }
  EXPECT_EQ(text[0], "hel\xEF\xBF\xBD");
  EXPECT_EQ(text[1], "o");
  EXPECT_EQ(finish[0], FinishReason::length);
  EXPECT_EQ(finish[1], FinishReason::stop);
  EXPECT_EQ(cancelled, (std::set<int>{1}));
}

}  // namespace
}  // namespace octavo
