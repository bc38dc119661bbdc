#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/strings.h"

namespace octavo {
namespace {

// Tokens by hand: pieces with ▁, byte tokens, a control token; one leading space goes.
Tokenizer spaced() {
  Vocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "▁", "a", "▁a", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "\xEF\xBF\xBD", "<0x0A>"};
  v.types = {2, 3, 1, 1, 1, 6, 6, 6, 6, 1, 6};
  v.scores = std::vector<float>(v.tokens.size(), 0);
  return *Tokenizer::from_vocabulary(v);
}

// The 256 bytes and nothing else; ids are the bytes in the order of their spelling.
Tokenizer bytes() {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  for (int c = 0x21; c < 0x144; ++c) {
    if ((c > 0x7E && c < 0xA1) || c == 0xAD) continue;
    std::string text;
    if (c >= 0x80) text += static_cast<char>(0xC0 | c >> 6);
    text += static_cast<char>(c < 0x80 ? c : 0x80 | (c & 0x3F));
    v.tokens.push_back(text);
  }
  v.tokens.push_back("ab");
  v.tokens.push_back("<|end|>");
  v.types = std::vector<std::int32_t>(v.tokens.size(), 1);
  v.types.back() = 3;
  v.merges = {"a b"};
  return *Tokenizer::from_vocabulary(v);
}

std::vector<std::string> deltas(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  StreamDecoder decoder(tokenizer);
  std::vector<std::string> out;
  for (const std::int32_t id : ids) out.push_back(decoder.push(id));
  out.push_back(decoder.finish());
  return out;
}

using Deltas = std::vector<std::string>;

TEST(StreamDecoder, ByteTokensWaitForTheEndOfTheirRun) {
  const Tokenizer t = spaced();
  EXPECT_EQ(deltas(t, {4, 5, 6, 7, 8, 3}), (Deltas{"a", "", "", "", "", "😀a", ""}));
  EXPECT_EQ(deltas(t, {3, 5, 6, 3}), (Deltas{"a", "", "",
                                             "\uFFFD\uFFFD"
                                             "a",
                                             ""}));
  EXPECT_EQ(deltas(t, {3, 5, 6, 7, 8}), (Deltas{"a", "", "", "", "", "😀"}));
  // Valid so far, spoiled at the end: the whole run is broken, so none of it may have been shown.
  EXPECT_EQ(deltas(t, {10, 5}), (Deltas{"", "", "\uFFFD\uFFFD"}));
}

TEST(StreamDecoder, OneLeadingSpaceGoes) {
  const Tokenizer t = spaced();
  EXPECT_EQ(deltas(t, {2, 2, 4}), (Deltas{"", " ", " a", ""}));
  EXPECT_EQ(deltas(t, {1, 4}), (Deltas{"<s>", " a", ""}));
  StreamDecoder skipping(t, {.skip_special = true});
  EXPECT_EQ(skipping.push(1) + skipping.push(4) + skipping.finish(), "a");
}

TEST(StreamDecoder, AReplacementCharacterOfTheModelStays) {
  EXPECT_EQ(deltas(spaced(), {3, 9, 3}), (Deltas{"a", "\uFFFD", "a", ""}));
  const Tokenizer t = bytes();
  const auto ids = *t.encode("x\uFFFDy");
  EXPECT_EQ(join(deltas(t, ids), ""), "x\uFFFDy");
}

TEST(StreamDecoder, HoldsOnlyWhatIsUnfinished) {
  const Tokenizer t = bytes();
  StreamDecoder decoder(t);
  std::string text;
  const std::vector<std::int32_t> ids = *t.encode("é€😀");
  for (const std::int32_t id : ids) {
    const std::string delta = decoder.push(id);
    EXPECT_EQ(find_invalid_utf8(delta), std::string_view::npos);
    EXPECT_EQ(delta.empty(), decoder.holds_text());
    text += delta;
  }
  EXPECT_EQ(text, "é€😀");
  EXPECT_EQ(decoder.finish(), "");
}

// All sequences of three bytes out of those that matter, alone and before a letter.
TEST(StreamDecoder, JoinedDeltasAreTheWholeDecoded) {
  const Tokenizer t = bytes();
  const std::string leads = "a\x80\x9F\xA0\xBF\xC0\xC3\xE0\xE2\xED\xF0\xF4\xF5\xFF";
  std::vector<std::int32_t> ids;
  for (const char lead : leads) ids.push_back(t.encode(std::string(1, lead))->at(0));
  for (const auto a : ids)
    for (const auto b : ids)
      for (const auto c : ids)
        for (const auto d : {ids[0], ids[1], t.vocab_size() - 1}) {
          const std::vector<std::int32_t> sequence = {a, b, c, d};
          ASSERT_EQ(join(deltas(t, sequence), ""), t.decode(sequence));
        }
}

TEST(StreamDecoder, UnknownIdsGiveNothing) {
  EXPECT_EQ(deltas(bytes(), {-1, 1'000'000, 0}), (Deltas{"", "", "!", ""}));
  EXPECT_EQ(bytes().decode(std::vector<std::int32_t>{-5, 1 << 30}), "");
}

}  // namespace
}  // namespace octavo
