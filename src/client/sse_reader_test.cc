#include "client/sse_reader.h"

#include <gtest/gtest.h>

#include <vector>

namespace octavo {
namespace {

using Events = std::vector<std::string>;

Events read_pieces(const std::vector<std::string_view>& pieces) {
  SseReader reader;
  Events events;
  for (const std::string_view piece : pieces)
    EXPECT_TRUE(reader.feed(piece, [&](std::string_view data) { events.emplace_back(data); }));
  return events;
}

// What the specification of event streams says of this text, by hand.
const std::string kText =
    "\xEF\xBB\xBF"
    "data: one\n\n"
    ": a comment\n\n"
    "event: named\r\ndata:two\r\nid: 7\r\ndata:  lines\r\n\r\n"
    "data: {\"k\": \"\xC3\xA9:\"}\r\r"
    "retry: 10\n\n"
    "data\n\n"
    "database: no\n\n"
    "data: [DONE]\n\n"
    "data: never ended\n";
const Events kEvents = {"one", "two\n lines", "{\"k\": \"\xC3\xA9:\"}", "", "[DONE]"};

TEST(SseReader, EveryCutGivesTheSameEvents) {
  const std::string_view text = kText;
  EXPECT_EQ(read_pieces({text}), kEvents);
  for (std::size_t a = 0; a <= text.size(); ++a)
    for (std::size_t b = a; b <= text.size(); ++b)
      ASSERT_EQ(read_pieces({text.substr(0, a), text.substr(a, b - a), text.substr(b)}), kEvents) << a << " " << b;
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  EXPECT_EQ(read_pieces(bytes), kEvents);
}

TEST(SseReader, AnEventWithoutEndIsRefused) {
  SseReader reader;
  const std::string block(std::size_t{1} << 20, 'x');
  bool open = true;
  int blocks = 0;
  for (; open && blocks < 100; ++blocks) open = reader.feed(block, [](std::string_view) {});
  EXPECT_FALSE(open);
  EXPECT_LE(blocks, 65);
}

}  // namespace
}  // namespace octavo
