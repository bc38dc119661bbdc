#include "kv/prefix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "kv/siphash.h"

namespace octavo {
namespace {

std::string siphash_hex(std::size_t length) {
  std::vector<std::byte> message(length);
  for (std::size_t i = 0; i < length; ++i) message[i] = static_cast<std::byte>(i);
  const SipHash128 hash = siphash128({0x0706050403020100u, 0x0f0e0d0c0b0a0908u}, message);
  unsigned char bytes[16];
  std::memcpy(bytes, &hash, 16);
  std::string text;
  for (const unsigned char byte : bytes) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

// Key 00 01 .. 0f, message 00 01 .. of this length, by OpenSSL's SIPHASH with 16 bytes of output.
TEST(SipHash, MatchesOpenSsl) {
  EXPECT_EQ(siphash_hex(0), "A3817F04BA25A8E66DF67214C7550293");
  EXPECT_EQ(siphash_hex(1), "DA87C1D86B99AF44347659119B22FC45");
  EXPECT_EQ(siphash_hex(7), "A1F1EBBED8DBC153C0B84AA61FF08239");
  EXPECT_EQ(siphash_hex(8), "3B62A9BA6258F5610F83E264F31497B4");
  EXPECT_EQ(siphash_hex(9), "264499060AD9BAABC47F8B02BB6D71ED");
  EXPECT_EQ(siphash_hex(15), "5493E99933B0A8117E08EC0F97CFC3D9");
  EXPECT_EQ(siphash_hex(16), "6EE2A4CA67B054BBFD3315BF85230577");
  EXPECT_EQ(siphash_hex(19), "78017731CF65FAB074D5208952512EB1");
}

bool less(const PageHash& a, const PageHash& b) { return std::pair(a.high, a.low) < std::pair(b.high, b.low); }

TEST(PageHash, EveryPartOfTheRootCounts) {
  std::set<PageHash, decltype(&less)> roots(&less);
  for (const auto& [identity, salt, adapter] : {std::tuple("a", "", ""),
                                                {"", "a", ""},
                                                {"", "", "a"},
                                                {"", "", ""},
                                                {"a", "b", ""},
                                                {"ab", "", ""},
                                                {"a", "", "b"}})
    EXPECT_TRUE(roots.insert(root_hash(identity, salt, adapter)).second);
  EXPECT_EQ(root_hash("x", "y", "z"), root_hash("x", "y", "z"));
}

TEST(PageHash, ChainsNameEverythingBefore) {
  const PageHash root = root_hash("cache", "", "");
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto chain = page_hashes(root, tokens, 4);
  ASSERT_EQ(chain.size(), 2u) << "only full pages have names";
  EXPECT_EQ(chain[0], page_hash(root, std::span(tokens).first(4)));
  EXPECT_EQ(chain[1], page_hash(chain[0], std::span(tokens).subspan(4, 4)));

  std::vector<std::int32_t> other = tokens;
  other[0] = 0;
  const auto changed = page_hashes(root, other, 4);
  EXPECT_NE(changed[0], chain[0]);
  EXPECT_NE(changed[1], chain[1]) << "a page's name depends on all tokens before it";
  EXPECT_NE(page_hashes(root_hash("cache", "salt", ""), tokens, 4)[0], chain[0]);
  EXPECT_NE(page_hashes(root_hash("cache", "", "adapter"), tokens, 4)[1], chain[1]);
  EXPECT_TRUE(page_hashes(root, {}, 4).empty());
  EXPECT_EQ(page_hashes(root, std::span(tokens).first(8), 4), chain);
}

TEST(PrefixIndex, OnePageAName) {
  PrefixIndex index;
  const PageHash name{1, 2};
  EXPECT_TRUE(index.insert(name, 7));
  EXPECT_FALSE(index.insert(name, 8));
  EXPECT_EQ(index.find(name), 7);
  EXPECT_EQ(index.find(PageHash{1, 3}), std::nullopt);
  index.erase(name);
  EXPECT_EQ(index.size(), 0u);
}

}  // namespace
}  // namespace octavo
