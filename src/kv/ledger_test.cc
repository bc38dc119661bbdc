#include "kv/ledger.h"

#include <gtest/gtest.h>

#include <numeric>

namespace octavo {
namespace {

constexpr int kPage = 4;
const PoolSpec kFull8{Lifetime::full, 0, 9};

std::vector<std::int32_t> counting_tokens(int count, int first = 0) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<PageHash> chain_of(int num_tokens, int first = 0, std::string_view salt = "",
                               std::string_view adapter = "") {
  return page_hashes(root_hash("cache", salt, adapter), counting_tokens(num_tokens, first), kPage);
}

// A sequence that has computed these tokens, all published.
SequenceId computed(KvLedger& ledger, int num_tokens, const std::vector<PageHash>& chain) {
  const SequenceId id = ledger.open();
  EXPECT_TRUE(ledger.extend(id, num_tokens));
  ledger.commit(id, num_tokens, chain);
  return id;
}

std::vector<std::int32_t> pages_of(const KvLedger& ledger, SequenceId id, int pool = 0) {
  const auto pages = ledger.pages(id, pool);
  return {pages.begin(), pages.end()};
}

void expect_use(const KvLedger& ledger, int pool, int held, int cached, int free) {
  const PoolUse use = ledger.use(pool);
  EXPECT_EQ(use.held, held);
  EXPECT_EQ(use.cached, cached);
  EXPECT_EQ(use.free, free);
  EXPECT_EQ(use.total, held + cached + free);
  ledger.check_invariants();
}

TEST(KvLedger, CountsPages) {
  KvLedger ledger(kPage, {kFull8}, true);
  expect_use(ledger, 0, 0, 0, 8);
  const SequenceId id = ledger.open();
  EXPECT_TRUE(ledger.extend(id, 5));
  EXPECT_EQ(ledger.reserved_tokens(id), 5);
  expect_use(ledger, 0, 2, 0, 6);
  EXPECT_TRUE(ledger.extend(id, 5)) << "asking again for the same room";
  EXPECT_TRUE(ledger.extend(id, 8));
  expect_use(ledger, 0, 2, 0, 6);
  ledger.commit(id, 5, chain_of(5));
  EXPECT_TRUE(ledger.extend(id, 4));
  EXPECT_EQ(ledger.reserved_tokens(id), 9);
  expect_use(ledger, 0, 3, 0, 5);
  for (const std::int32_t page : pages_of(ledger, id)) EXPECT_NE(page, kSinkPage);
  ledger.close(id);
  expect_use(ledger, 0, 0, 1, 7);
}

TEST(KvLedger, ExtendIsAllOrNothingOverAllPools) {
  KvLedger ledger(kPage, {kFull8, {Lifetime::window, 4, 4}}, true);
  const SequenceId id = ledger.open();
  EXPECT_FALSE(ledger.can_extend(id, 13));
  EXPECT_FALSE(ledger.extend(id, 13)) << "the window pool has three pages";
  expect_use(ledger, 0, 0, 0, 8);
  EXPECT_TRUE(ledger.extend(id, 12));
  EXPECT_FALSE(ledger.extend(id, 13));
  ledger.commit(id, 12, {});
  EXPECT_TRUE(ledger.extend(id, 8)) << "pages that left the window are free again";
  expect_use(ledger, 0, 5, 0, 3);
  expect_use(ledger, 1, 3, 0, 0);
  EXPECT_FALSE(ledger.can_extend(id, 2147483647));
}

TEST(KvLedger, HitEndsExactlyAtFullPages) {
  KvLedger ledger(kPage, {kFull8}, true);
  ledger.close(computed(ledger, 12, chain_of(12)));
  // A prompt of exactly three pages still computes its last token: the caller asks for one token less.
  for (const auto& [max_tokens, expected] :
       {std::pair(0, 0), {3, 0}, {4, 4}, {7, 4}, {8, 8}, {11, 8}, {12, 12}, {100, 12}}) {
    const SequenceId id = ledger.open();
    EXPECT_EQ(ledger.reuse(id, chain_of(12), max_tokens), expected);
    EXPECT_EQ(ledger.reserved_tokens(id), expected);
    EXPECT_EQ(static_cast<int>(ledger.pages(id, 0).size()), expected / kPage);
    expect_use(ledger, 0, expected / kPage, 3 - expected / kPage, 5);
    ledger.close(id);
  }
}

TEST(KvLedger, TheLastPageOfAFullHitIsComputedAgainInAPageOfItsOwn) {
  KvLedger ledger(kPage, {kFull8}, true);
  const SequenceId first = computed(ledger, 8, chain_of(8));
  const SequenceId second = ledger.open();
  EXPECT_EQ(ledger.reuse(second, chain_of(8), 7), 4);
  EXPECT_TRUE(ledger.extend(second, 4));
  EXPECT_EQ(pages_of(ledger, second)[0], pages_of(ledger, first)[0]);
  EXPECT_NE(pages_of(ledger, second)[1], pages_of(ledger, first)[1]);
  ledger.commit(second, 8, chain_of(8));
  ledger.close(second);
  expect_use(ledger, 0, 2, 0, 6);  // the duplicate had no name, so it is free
  ledger.close(first);
  expect_use(ledger, 0, 0, 2, 6);
}

TEST(KvLedger, SaltAndAdapterDoNotShare) {
  KvLedger ledger(kPage, {kFull8}, true);
  ledger.close(computed(ledger, 8, chain_of(8, 0, "", "")));
  const auto hit = [&](std::string_view salt, std::string_view adapter) {
    const SequenceId id = ledger.open();
    const int tokens = ledger.reuse(id, chain_of(8, 0, salt, adapter), 8);
    ledger.close(id);
    return tokens;
  };
  EXPECT_EQ(hit("", ""), 8);
  EXPECT_EQ(hit("tenant", ""), 0);
  EXPECT_EQ(hit("", "adapter"), 0);
  ledger.close(computed(ledger, 8, chain_of(8, 0, "", "adapter")));
  EXPECT_EQ(hit("", "adapter"), 8);
  EXPECT_EQ(hit("adapter", ""), 0);
}

TEST(KvLedger, SharedPagesAreHeldUntilTheLastGoes) {
  KvLedger ledger(kPage, {kFull8}, true);
  const SequenceId first = computed(ledger, 9, chain_of(9));
  const SequenceId second = ledger.open();
  EXPECT_EQ(ledger.reuse(second, chain_of(9), 8), 8);
  expect_use(ledger, 0, 3, 0, 5);
  ledger.close(first);
  expect_use(ledger, 0, 2, 0, 6);
  ledger.close(second);
  expect_use(ledger, 0, 0, 2, 6);
}

TEST(KvLedger, EvictsTheOldestFirstAndTailsBeforeHeads) {
  KvLedger ledger(kPage, {kFull8}, true);
  const auto hit = [&](int first_token) {
    const SequenceId id = ledger.open();
    const int tokens = ledger.reuse(id, chain_of(16, first_token), 16);
    ledger.close(id);
    return tokens;
  };
  ledger.close(computed(ledger, 16, chain_of(16, 0)));
  ledger.close(computed(ledger, 16, chain_of(16, 1000)));
  expect_use(ledger, 0, 0, 8, 0);
  ledger.close(computed(ledger, 8, {}));  // takes two pages and leaves them free
  expect_use(ledger, 0, 0, 6, 2);
  EXPECT_EQ(hit(1000), 16);
  EXPECT_EQ(hit(0), 8) << "the first chain lost its tail";
  ledger.close(
      computed(ledger, 16, {}));  // two free ones, then the least recently used: what is left of the second chain
  EXPECT_EQ(hit(1000), 8);
  EXPECT_EQ(hit(0), 8);
}

TEST(KvLedger, CachedPagesMakeRoom) {
  KvLedger ledger(kPage, {kFull8}, true);
  ledger.close(computed(ledger, 32, chain_of(32)));
  const SequenceId id = ledger.open();
  EXPECT_EQ(ledger.reuse(id, chain_of(32), 8), 8);
  EXPECT_TRUE(ledger.can_extend(id, 24));
  EXPECT_FALSE(ledger.can_extend(id, 25));
  EXPECT_TRUE(ledger.extend(id, 24));
  expect_use(ledger, 0, 8, 0, 0);
}

TEST(KvLedger, PartialChainsStayPrivate) {
  KvLedger ledger(kPage, {kFull8}, true);
  const SequenceId id = ledger.open();
  EXPECT_TRUE(ledger.extend(id, 12));
  ledger.commit(id, 12, chain_of(4));
  ledger.commit(id, 12, chain_of(8));  // the names come later than the content
  ledger.close(id);
  expect_use(ledger, 0, 0, 2, 6);
}

TEST(KvLedger, WithoutPrefixCachingNothingStays) {
  KvLedger ledger(kPage, {kFull8}, false);
  ledger.close(computed(ledger, 8, chain_of(8)));
  expect_use(ledger, 0, 0, 0, 8);
  EXPECT_EQ(ledger.reuse(ledger.open(), chain_of(8), 8), 0);
}

TEST(KvLedger, ResetForgetsAndWhatWasBegunBeforePublishesNothing) {
  KvLedger ledger(kPage, {kFull8}, true);
  ledger.close(computed(ledger, 8, chain_of(8, 500)));
  const SequenceId open = computed(ledger, 8, chain_of(16));
  ledger.reset_prefix_cache();
  expect_use(ledger, 0, 2, 0, 6);
  EXPECT_EQ(ledger.reuse(ledger.open(), chain_of(8), 8), 0);
  EXPECT_EQ(ledger.reuse(ledger.open(), chain_of(8, 500), 8), 0);
  EXPECT_TRUE(ledger.extend(open, 8));
  ledger.commit(open, 16, chain_of(16));
  ledger.close(open);
  expect_use(ledger, 0, 0, 0, 8);
  ledger.close(computed(ledger, 8, chain_of(8)));
  EXPECT_EQ(ledger.reuse(ledger.open(), chain_of(8), 8), 8);
}

TEST(KvLedger, AWindowGivesPagesBackWhenNoQuerySeesThem) {
  // Window 6: the query at position L sees keys L - 5 .. L. Page 0 (tokens 0..3) is last seen by the query at 8.
  KvLedger ledger(kPage, {{Lifetime::window, 6, 9}}, false);
  const SequenceId id = ledger.open();
  for (int length = 1; length <= 40; ++length) {
    ASSERT_TRUE(ledger.extend(id, 1));
    ledger.commit(id, length, {});
    const auto pages = pages_of(ledger, id);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const int last_token = static_cast<int>(i) * kPage + 3;
      EXPECT_EQ(pages[i] == kSinkPage, last_token <= length - 6) << "page " << i << " at length " << length;
    }
    ledger.check_invariants();
  }
  EXPECT_LE(ledger.use(0).held, 3);
  ledger.close(id);
  expect_use(ledger, 0, 0, 0, 8);
}

TEST(KvLedger, AWindowHitNeedsOnlyTheWindow) {
  KvLedger ledger(kPage, {{Lifetime::full, 0, 33}, {Lifetime::window, 6, 9}}, true);
  const auto chain = chain_of(40);
  const SequenceId first = ledger.open();
  for (int length = 4; length <= 40; length += 4) {
    ASSERT_TRUE(ledger.extend(first, 4));
    ledger.commit(first, length, chain);
  }
  ledger.close(first);
  expect_use(ledger, 1, 0, 8, 0);  // ten pages were written, the two oldest evicted
  const SequenceId second = ledger.open();
  EXPECT_EQ(ledger.reuse(second, chain, 39), 36);
  // The query at 36 sees keys 31..36: page 7 (28..31) and page 8.
  const auto pages = pages_of(ledger, second, 1);
  ASSERT_EQ(pages.size(), 9u);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(pages[i] == kSinkPage, i < 7) << i;
  EXPECT_EQ(ledger.use(0).held, 9);
  EXPECT_EQ(ledger.use(1).held, 2);
  ledger.check_invariants();
  const SequenceId third = ledger.open();
  EXPECT_EQ(ledger.reuse(third, chain, 8), 0) << "the window pool lost the pages of the beginning";
}

TEST(KvLedger, AMissingWindowPageShortensTheHit) {
  KvLedger ledger(kPage, {{Lifetime::full, 0, 33}, {Lifetime::window, 8, 7}}, true);
  const auto chain = chain_of(24);
  ledger.close(computed(ledger, 24, chain));
  // Six window pages are cached; released at commit 0, 1, 2, 3 (left the window), then at close 5, 4.
  const SequenceId other = ledger.open();
  EXPECT_TRUE(ledger.extend(other, 20));  // evicts window pages 0, 1, 2, 3, 5
  const SequenceId id = ledger.open();
  EXPECT_EQ(ledger.reuse(id, chain, 24), 0) << "page 4 alone serves no hit of a window of 8";
  ledger.close(other);
  expect_use(ledger, 1, 0, 1, 5);
  KvLedger narrow(kPage, {{Lifetime::full, 0, 33}, {Lifetime::window, 5, 7}}, true);
  narrow.close(computed(narrow, 24, chain));
  EXPECT_TRUE(narrow.extend(narrow.open(), 20));  // released 0 .. 4 at commit, then 5: only 5 is left
  EXPECT_EQ(narrow.reuse(narrow.open(), chain, 24), 24) << "the query at 24 sees keys 20..24: page 5";
}

TEST(KvLedger, WindowOfOneNeedsNoPage) {
  KvLedger ledger(kPage, {{Lifetime::full, 0, 9}, {Lifetime::window, 1, 3}}, true);
  const auto chain = chain_of(8);
  ledger.close(computed(ledger, 8, chain));
  const SequenceId id = ledger.open();
  EXPECT_EQ(ledger.reuse(id, chain, 8), 8);
  EXPECT_EQ(pages_of(ledger, id, 1), (std::vector<std::int32_t>{kSinkPage, kSinkPage}));
  EXPECT_TRUE(ledger.extend(id, 1));
  ledger.commit(id, 9, chain);
  ledger.check_invariants();
}

const PoolSpec kStates3{Lifetime::state, 0, 4};

TEST(KvLedger, AStateIsOneRecordPerSequence) {
  KvLedger ledger(kPage, {kFull8, {Lifetime::state, 0, 3}}, true);
  const SequenceId first = computed(ledger, 4, chain_of(4));
  EXPECT_TRUE(ledger.extend(first, 12));
  expect_use(ledger, 1, 1, 0, 1);
  const SequenceId second = ledger.open();
  EXPECT_EQ(ledger.reuse(second, chain_of(4), 4), 0) << "no record says what the state was after page 0";
  EXPECT_EQ(ledger.reusable_without_states(chain_of(4), 4), 4);
  EXPECT_TRUE(ledger.extend(second, 1));
  EXPECT_FALSE(ledger.can_extend(ledger.open(), 1));
  ledger.close(first);
  expect_use(ledger, 1, 1, 0, 1);
}

TEST(KvLedger, ASnapshotIsLeftBehindAndCopiedByWhoeverGoesOn) {
  KvLedger ledger(kPage, {{Lifetime::full, 0, 33}, kStates3}, true);
  const auto chain = chain_of(16);
  const SequenceId first = ledger.open();
  ASSERT_TRUE(ledger.extend(first, 8));
  const std::int32_t left = pages_of(ledger, first, 1).at(0);
  ledger.commit(first, 8, chain, true);
  EXPECT_EQ(ledger.snapshot(first, 1), left);
  EXPECT_TRUE(pages_of(ledger, first, 1).empty());

  ASSERT_TRUE(ledger.extend(first, 4));
  EXPECT_EQ(ledger.snapshot(first, 1), left) << "to be copied";
  EXPECT_NE(pages_of(ledger, first, 1).at(0), left);
  expect_use(ledger, 1, 2, 0, 1);
  ASSERT_TRUE(ledger.extend(first, 4)) << "asking again for the same room";
  EXPECT_EQ(ledger.snapshot(first, 1), left);
  ledger.commit(first, 12, chain);
  EXPECT_EQ(ledger.snapshot(first, 1), kSinkPage) << "it was copied";
  expect_use(ledger, 1, 1, 1, 1);

  const SequenceId second = ledger.open();
  EXPECT_EQ(ledger.reuse(second, chain, 15), 8) << "pages up to 12 are there, but no state after them";
  EXPECT_EQ(ledger.reusable_without_states(chain, 15), 12);
  EXPECT_EQ(ledger.snapshot(second, 1), left);
  ASSERT_TRUE(ledger.extend(second, 1));
  EXPECT_NE(pages_of(ledger, second, 1).at(0), left);
  expect_use(ledger, 1, 3, 0, 0);
  ledger.close(second);
  ledger.close(first);
  expect_use(ledger, 1, 0, 1, 2);
}

TEST(KvLedger, TheSameSnapshotIsKeptOnce) {
  KvLedger ledger(kPage, {{Lifetime::full, 0, 33}, kStates3}, true);
  const auto chain = chain_of(8);
  for (int round = 0; round < 2; ++round) {
    const SequenceId id = ledger.open();
    ASSERT_TRUE(ledger.extend(id, 8));
    ledger.commit(id, 8, chain, true);
    ledger.close(id);
    expect_use(ledger, 1, 0, 1, 2);
  }
}

// With overlapping steps the page's last token is known only when the next one has been computed.
TEST(KvLedger, ASnapshotGetsItsNameWhenItsTokensAreKnown) {
  KvLedger ledger(kPage, {{Lifetime::full, 0, 33}, kStates3}, true);
  const auto chain = chain_of(12);
  const SequenceId id = ledger.open();
  ASSERT_TRUE(ledger.extend(id, 8));
  ledger.commit(id, 8, std::span(chain).first(1), true);
  EXPECT_EQ(ledger.reuse(ledger.open(), chain, 8), 0);
  ASSERT_TRUE(ledger.extend(id, 1));
  ledger.commit(id, 9, std::span(chain).first(2));
  EXPECT_EQ(ledger.reuse(ledger.open(), chain, 8), 8);
}

TEST(KvLedger, SnapshotsGiveWayToSequences) {
  KvLedger ledger(kPage, {{Lifetime::full, 0, 33}, {Lifetime::state, 0, 2}}, true);
  const auto chain = chain_of(16);
  const SequenceId id = ledger.open();
  ASSERT_TRUE(ledger.extend(id, 4));
  ledger.commit(id, 4, chain, true);
  const std::int32_t only = ledger.snapshot(id, 1);
  ASSERT_TRUE(ledger.extend(id, 4)) << "the only record there is";
  EXPECT_EQ(ledger.snapshot(id, 1), kSinkPage);
  EXPECT_EQ(pages_of(ledger, id, 1), std::vector<std::int32_t>{only});
  ledger.commit(id, 8, chain, true);
  const SequenceId other = ledger.open();
  EXPECT_EQ(ledger.reuse(other, chain, 15), 8);
  EXPECT_FALSE(ledger.can_extend(id, 1)) << "two sequences begin from it";
  EXPECT_FALSE(ledger.extend(other, 1));
  ledger.close(other);
  EXPECT_TRUE(ledger.extend(id, 1));
  ledger.check_invariants();
  ledger.commit(id, 9, chain);
  ledger.close(id);
  EXPECT_EQ(ledger.reuse(ledger.open(), chain, 15), 0);
}

TEST(KvLedger, OldSnapshotsAreEvictedFirst) {
  KvLedger ledger(kPage, {{Lifetime::full, 0, 65}, kStates3}, true);
  const auto leave = [&](const std::vector<PageHash>& chain) {
    const SequenceId id = ledger.open();
    ASSERT_TRUE(ledger.extend(id, 8));
    ledger.commit(id, 8, chain, true);
    ledger.close(id);
  };
  const auto found = [&](const std::vector<PageHash>& chain) {
    const SequenceId id = ledger.open();
    const int tokens = ledger.reuse(id, chain, 8);
    ledger.close(id);
    return tokens;
  };
  const auto a = chain_of(8, 100), b = chain_of(8, 200), c = chain_of(8, 300), d = chain_of(8, 400);
  leave(a), leave(b), leave(c);
  EXPECT_EQ(found(a), 8) << "used last";
  leave(d);
  EXPECT_EQ(found(b), 0);
  EXPECT_EQ(ledger.reusable_without_states(b, 8), 8);
  for (const auto& chain : {a, c, d}) EXPECT_EQ(found(chain), 8);
  ledger.reset_prefix_cache();
  EXPECT_EQ(found(a), 0);
  expect_use(ledger, 1, 0, 0, 3);
}

TEST(KvLedger, MistakesStop) {
  KvLedger ledger(kPage, {kFull8}, true);
  const SequenceId id = ledger.open();
  ledger.close(id);
  EXPECT_DEATH(ledger.close(id), "not open");
  EXPECT_DEATH(ledger.extend(-1, 1), "not open");
  const SequenceId other = computed(ledger, 4, {});
  EXPECT_NE(other, id);
  EXPECT_DEATH(ledger.commit(id, 1, {}), "not open");
  EXPECT_DEATH(ledger.commit(other, 5, {}), "room of their own");
  EXPECT_DEATH(ledger.commit(other, 3, {}), "room of their own");
  EXPECT_DEATH(ledger.reuse(other, chain_of(4), 4), "without pages");
}

}  // namespace
}  // namespace octavo
