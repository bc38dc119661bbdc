// A million random steps of many sequences against a plain model of the memory: what each slot of each page holds, and
// after which token each record is. Nothing that a sequence can see may ever differ from what it computed itself or
// would have computed.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kv/ledger.h"

namespace octavo {
namespace {

constexpr int kPageTokens = 4;
constexpr int kMaxTokens = 44;

// What the model believes of one sequence. A slot's content is the name of all tokens up to it, of salt and of epoch.
struct Believer {
  SequenceId id = 0;
  int salt = 0;
  std::vector<std::int32_t> tokens;
  std::vector<PageHash> chain;
  std::vector<std::uint64_t> contents;  // of each token of the whole prompt
  int length = 0;                       // computed
  int offered = 0;                      // full pages that were offered to the index
  bool publishes = true;
  std::vector<std::int32_t> snapshots;  // by pool: what the next step begins from, or the sink
  int snapshot_pages = 0;
};

class Fuzz {
 public:
  Fuzz(std::vector<PoolSpec> pools, unsigned seed) : pools_(pools), ledger_(kPageTokens, pools, true), random_(seed) {
    names_.resize(pools.size());
    for (const PoolSpec& pool : pools) memory_.emplace_back(static_cast<std::size_t>(pool.num_pages) * kPageTokens, 0);
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const int what = below(100);
      if (what < 14 && open_.size() < 12)
        open();
      else if (what < 24 && !open_.empty())
        close(pick());
      else if (!open_.empty())
        grow(open_[pick()]);
      if (below(2000) == 0) reset();
      if (step % 500 == 0) check_books();
      if (::testing::Test::HasFailure()) return;
    }
    while (!open_.empty()) close(open_.size() - 1);
    check_books();
  }

  int hits() const { return hits_; }
  int refusals() const { return refusals_; }
  int given_up() const { return given_up_; }

 private:
  int below(int end) { return static_cast<int>(random_() % static_cast<std::uint32_t>(end)); }
  std::size_t pick() { return static_cast<std::size_t>(below(static_cast<int>(open_.size()))); }

  // Prompts over two letters, mostly the first, so that beginnings are often shared.
  void open() {
    Believer sequence;
    sequence.salt = below(2);
    sequence.tokens.resize(static_cast<std::size_t>(1 + below(kMaxTokens)));
    for (std::int32_t& token : sequence.tokens) token = below(12) == 0 ? 1 : 0;
    name_contents(sequence);
    sequence.chain = page_hashes(root_hash("fuzz", sequence.salt == 0 ? "" : "salt", ""), sequence.tokens, kPageTokens);
    sequence.id = ledger_.open();
    sequence.length = ledger_.reuse(sequence.id, sequence.chain, static_cast<int>(sequence.tokens.size()) - 1);
    ASSERT_LT(sequence.length, static_cast<int>(sequence.tokens.size()));
    ASSERT_EQ(sequence.length, longest_hit(sequence) * kPageTokens);
    sequence.offered = sequence.snapshot_pages = sequence.length / kPageTokens;
    hits_ += sequence.length > 0 ? 1 : 0;
    sequence.snapshots.assign(pools_.size(), kSinkPage);
    for (std::size_t pool = 0; pool < pools_.size(); ++pool)
      if (is_state(pool) && sequence.length > 0)
        sequence.snapshots[pool] =
            names_[pool].at(name_of(sequence, static_cast<std::size_t>(sequence.length / kPageTokens) - 1));
    check_sight(sequence);
    open_.push_back(std::move(sequence));
  }

  void name_contents(Believer& sequence) const {
    sequence.contents.clear();
    std::uint64_t name = (epoch_ * 2 + static_cast<std::uint64_t>(sequence.salt) + 1) * 0x9E3779B97F4A7C15u;
    for (const std::int32_t token : sequence.tokens) {
      name = (name ^ static_cast<std::uint64_t>(token + 1)) * 0xD6E8FEB86659FD93u;
      name ^= name >> 32;
      sequence.contents.push_back(name);
    }
  }

  void close(std::size_t which) {
    check_sight(open_[which]);
    ledger_.close(open_[which].id);
    open_[which] = std::move(open_.back());
    open_.pop_back();
  }

  void grow(Believer& sequence) {
    const int left = static_cast<int>(sequence.contents.size()) - sequence.length;
    if (left == 0) return;
    const int count = 1 + below(std::min(left, 9));
    const bool fits = ledger_.can_extend(sequence.id, count);
    const std::vector<std::size_t> sizes = table_sizes(sequence);
    const std::vector<bool> full = full_pools();
    ASSERT_EQ(ledger_.extend(sequence.id, count), fits);
    if (!fits) {
      ++refusals_;
      return check_refusal(sequence, count);
    }
    forget_taken(sequence, sizes);
    begin_states(sequence, full);
    // Sometimes a step computes fewer tokens than it asked room for, or none.
    const int done = below(8) == 0 ? below(count + 1) : count;
    for (int position = sequence.length; position < sequence.length + count; ++position)
      write(sequence, position,
            position < sequence.length + done ? sequence.contents[static_cast<std::size_t>(position)] : 1);
    sequence.length += done;
    if (done > 0) write_states(sequence);
    // Before the ledger learns of it, every key that the step's queries saw is there; after it, those of the next
    // query.
    check_sight(sequence, done > 0);
    commit(sequence, done > 0);
    check_sight(sequence);
  }

  // The last token may still be unknown when it is computed, and the page that it ends with it.
  void commit(Believer& sequence, bool went_on) {
    const int known = below(3) == 0 ? (sequence.length - 1) / kPageTokens : sequence.length / kPageTokens;
    const auto chain = std::span(sequence.chain).first(static_cast<std::size_t>(std::max(known, 0)));
    const bool keeps = below(2) == 0;
    note_names(sequence, chain.size());
    for (std::size_t pool = 0; pool < pools_.size(); ++pool)
      if (is_state(pool)) note_states(sequence, pool, chain.size(), went_on, keeps);
    if (went_on) sequence.snapshot_pages = sequence.length / kPageTokens;
    ledger_.commit(sequence.id, sequence.length, chain, keeps);
    for (std::size_t pool = 0; pool < pools_.size(); ++pool)
      if (is_state(pool)) {
        ASSERT_EQ(ledger_.snapshot(sequence.id, static_cast<int>(pool)), sequence.snapshots[pool]);
      }
  }

  bool is_state(std::size_t pool) const { return pools_[pool].lifetime == Lifetime::state; }
  std::uint64_t& record(std::size_t pool, std::int32_t page) {
    return memory_[pool][static_cast<std::size_t>(page) * kPageTokens];
  }

  std::vector<std::size_t> table_sizes(const Believer& sequence) const {
    std::vector<std::size_t> sizes;
    for (std::size_t pool = 0; pool < pools_.size(); ++pool)
      sizes.push_back(ledger_.pages(sequence.id, static_cast<int>(pool)).size());
    return sizes;
  }
  std::vector<bool> full_pools() const {
    std::vector<bool> full;
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
      const PoolUse use = ledger_.use(static_cast<int>(pool));
      full.push_back(use.free + use.cached == 0);
    }
    return full;
  }

  // What a step does before its first token: the snapshot is copied. One that is written on was the last there was.
  void begin_states(Believer& sequence, const std::vector<bool>& was_full) {
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
      if (!is_state(pool)) continue;
      const auto pages = ledger_.pages(sequence.id, static_cast<int>(pool));
      ASSERT_EQ(pages.size(), 1u);
      const std::int32_t from = ledger_.snapshot(sequence.id, static_cast<int>(pool));
      if (from == kSinkPage && sequence.snapshots[pool] != kSinkPage) {
        ASSERT_TRUE(was_full[pool]) << "a snapshot is given up only where there is no other record";
        ASSERT_EQ(pages[0], sequence.snapshots[pool]);
        ++given_up_;
      }
      ASSERT_TRUE(from == kSinkPage || from == sequence.snapshots[pool]);
      sequence.snapshots[pool] = from;
      if (from != kSinkPage) record(pool, pages[0]) = record(pool, from);
      if (sequence.length == 0) continue;
      ASSERT_EQ(record(pool, pages[0]), sequence.contents[static_cast<std::size_t>(sequence.length) - 1]);
    }
  }

  void write_states(const Believer& sequence) {
    for (std::size_t pool = 0; pool < pools_.size(); ++pool)
      if (is_state(pool))
        record(pool, ledger_.pages(sequence.id, static_cast<int>(pool))[0]) =
            sequence.contents[static_cast<std::size_t>(sequence.length) - 1];
  }

  // What the commit to come does to the snapshot of a pool: the one that was copied is named if it can be, and let go;
  // the record becomes one where it is asked for and nobody has it under its name.
  void note_states(Believer& sequence, std::size_t pool, std::size_t known, bool went_on, bool keeps) {
    const auto offer = [&](std::int32_t page, int num_pages) {
      if (page != kSinkPage && sequence.publishes && static_cast<std::size_t>(num_pages) <= known)
        names_[pool].emplace(name_of(sequence, static_cast<std::size_t>(num_pages) - 1), page);
    };
    offer(sequence.snapshots[pool], sequence.snapshot_pages);
    if (!went_on) return;
    sequence.snapshots[pool] = kSinkPage;
    const int num_pages = sequence.length / kPageTokens;
    if (!keeps || !sequence.publishes || sequence.length % kPageTokens != 0) return;
    const std::int32_t page = ledger_.pages(sequence.id, static_cast<int>(pool))[0];
    offer(page, num_pages);
    const bool is_known = static_cast<std::size_t>(num_pages) <= known;
    if (!is_known || names_[pool].at(name_of(sequence, static_cast<std::size_t>(num_pages) - 1)) == page)
      sequence.snapshots[pool] = page;
  }

  // A page that was just handed out means nothing else any more.
  void forget_taken(const Believer& sequence, const std::vector<std::size_t>& sizes) {
    for (std::size_t pool = 0; pool < pools_.size(); ++pool)
      for (const std::int32_t page : ledger_.pages(sequence.id, static_cast<int>(pool)).subspan(sizes[pool]))
        std::erase_if(names_[pool], [&](const auto& entry) { return entry.second == page; });
  }

  void note_names(Believer& sequence, std::size_t known) {
    const int end = std::min(sequence.length / kPageTokens, static_cast<int>(known));
    for (; sequence.publishes && sequence.offered < end; ++sequence.offered) {
      const auto i = static_cast<std::size_t>(sequence.offered);
      for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
        if (is_state(pool)) continue;
        const std::int32_t page = ledger_.pages(sequence.id, static_cast<int>(pool))[i];
        if (page != kSinkPage) names_[pool].emplace(name_of(sequence, i), page);
      }
    }
  }

  // The most pages that can be taken over: every count is tried, from the prompt's length down.
  int longest_hit(const Believer& sequence) const {
    for (int hit = (static_cast<int>(sequence.tokens.size()) - 1) / kPageTokens; hit > 0; --hit) {
      bool whole = true;
      for (std::size_t pool = 0; pool < pools_.size(); ++pool)
        for (int i = 0; i < hit; ++i) {
          const bool seen = is_state(pool) ? i + 1 == hit
                                           : pools_[pool].lifetime == Lifetime::full ||
                                                 (i + 1) * kPageTokens > hit * kPageTokens - pools_[pool].window + 1;
          whole &= !seen || names_[pool].contains(name_of(sequence, static_cast<std::size_t>(i)));
        }
      if (whole) return hit;
    }
    return 0;
  }

  static std::pair<std::uint64_t, std::uint64_t> name_of(const Believer& sequence, std::size_t page) {
    return {sequence.chain[page].high, sequence.chain[page].low};
  }

  void write(const Believer& sequence, int position, std::uint64_t content) {
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
      if (is_state(pool)) continue;
      const auto pages = ledger_.pages(sequence.id, static_cast<int>(pool));
      ASSERT_LT(static_cast<std::size_t>(position / kPageTokens), pages.size());
      const std::int32_t page = pages[static_cast<std::size_t>(position / kPageTokens)];
      ASSERT_GT(page, kSinkPage) << "a token to be written has a page";
      ASSERT_LT(page, pools_[pool].num_pages);
      memory_[pool][static_cast<std::size_t>(page * kPageTokens + position % kPageTokens)] = content;
    }
  }

  // All that the query at position `length` can see is what this sequence computed. in_record: the states are where
  // steps write them, whatever they began from.
  void check_sight(const Believer& sequence, bool in_record = false) {
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
      const auto pages = ledger_.pages(sequence.id, static_cast<int>(pool));
      if (is_state(pool)) {
        if (sequence.length == 0) continue;
        const std::int32_t from = in_record ? kSinkPage : ledger_.snapshot(sequence.id, static_cast<int>(pool));
        ASSERT_EQ(record(pool, from != kSinkPage ? from : pages[0]),
                  sequence.contents[static_cast<std::size_t>(sequence.length) - 1]);
        continue;
      }
      const int window = pools_[pool].window;
      const int first = pools_[pool].lifetime == Lifetime::full ? 0 : std::max(0, sequence.length - window + 1);
      for (int position = first; position < sequence.length; ++position) {
        const std::int32_t page = pages[static_cast<std::size_t>(position / kPageTokens)];
        ASSERT_GT(page, kSinkPage) << "token " << position << " of " << sequence.length << " is visible";
        ASSERT_EQ(memory_[pool][static_cast<std::size_t>(page * kPageTokens + position % kPageTokens)],
                  sequence.contents[static_cast<std::size_t>(position)])
            << "token " << position << " of " << sequence.length << " in pool " << pool;
      }
    }
  }

  void check_refusal(const Believer& sequence, int count) {
    bool short_of_pages = false;
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
      const PoolUse use = ledger_.use(static_cast<int>(pool));
      if (is_state(pool)) {
        short_of_pages |= use.free + use.cached == 0 && ledger_.pages(sequence.id, static_cast<int>(pool)).empty() &&
                          !holds_alone(sequence, pool);
        continue;
      }
      const int pages = (sequence.length + count + kPageTokens - 1) / kPageTokens;
      const int missing = pages - static_cast<int>(ledger_.pages(sequence.id, static_cast<int>(pool)).size());
      short_of_pages |= missing > use.free + use.cached;
    }
    ASSERT_TRUE(short_of_pages) << "room is refused only where there is none";
  }

  bool holds_alone(const Believer& sequence, std::size_t pool) const {
    const std::int32_t record = sequence.snapshots[pool];
    return record != kSinkPage && std::all_of(open_.begin(), open_.end(), [&](const Believer& other) {
             return other.id == sequence.id || other.snapshots[pool] != record;
           });
  }

  // Held pages are those that somebody's table names, counted apart from the ledger's own counts.
  void check_books() {
    ledger_.check_invariants();
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) {
      std::map<std::int32_t, int> holders;
      for (const Believer& sequence : open_) {
        for (const std::int32_t page : ledger_.pages(sequence.id, static_cast<int>(pool)))
          if (page != kSinkPage) ++holders[page];
        if (sequence.snapshots[pool] != kSinkPage) ++holders[sequence.snapshots[pool]];
      }
      const PoolUse use = ledger_.use(static_cast<int>(pool));
      ASSERT_EQ(static_cast<std::size_t>(use.held), holders.size());
      ASSERT_EQ(use.held + use.cached + use.free, use.total);
      ASSERT_EQ(use.total, pools_[pool].num_pages - 1);
    }
  }

  // After a reset the same tokens mean other bytes (new weights), so an old page that is found again shows as wrong
  // content.
  void reset() {
    ledger_.reset_prefix_cache();
    ++epoch_;
    for (Believer& sequence : open_) {
      sequence.publishes = ledger_.reserved_tokens(sequence.id) == 0;
      if (sequence.publishes) name_contents(sequence);  // nothing of it is computed yet
    }
    for (auto& names : names_) names.clear();
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) ASSERT_EQ(ledger_.use(static_cast<int>(pool)).cached, 0);
  }

  std::vector<PoolSpec> pools_;
  KvLedger ledger_;
  std::mt19937 random_;
  std::vector<std::vector<std::uint64_t>> memory_;  // [pool][page * kPageTokens + slot]
  std::vector<std::map<std::pair<std::uint64_t, std::uint64_t>, std::int32_t>>
      names_;  // by pool: what may be found again
  std::vector<Believer> open_;
  std::uint64_t epoch_ = 0;
  int hits_ = 0;
  int refusals_ = 0;
  int given_up_ = 0;  // snapshots
};

void fuzz(const std::vector<PoolSpec>& pools, unsigned seed, int steps) {
  Fuzz fuzz(pools, seed);
  fuzz.run(steps);
  EXPECT_GT(fuzz.hits(), steps / 100) << "the fuzz must meet shared beginnings";
  EXPECT_GT(fuzz.refusals(), steps / 1000) << "the fuzz must meet full pools";
  const auto is_state = [](const PoolSpec& pool) { return pool.lifetime == Lifetime::state; };
  if (std::any_of(pools.begin(), pools.end(), is_state)) {
    EXPECT_GT(fuzz.given_up(), steps / 1000) << "the fuzz must meet records that are wanted back";
  }
}

TEST(KvLedgerFuzz, Full) { fuzz({{Lifetime::full, 0, 41}}, 1, 200000); }
TEST(KvLedgerFuzz, Window) { fuzz({{Lifetime::window, 9, 25}}, 2, 100000); }
TEST(KvLedgerFuzz, FullAndWindows) {
  fuzz({{Lifetime::full, 0, 49}, {Lifetime::window, 6, 31}, {Lifetime::window, 17, 36}}, 3, 250000);
}
TEST(KvLedgerFuzz, NarrowWindows) {
  fuzz({{Lifetime::window, 1, 21}, {Lifetime::full, 0, 45}, {Lifetime::window, 5, 24}}, 4, 100000);
}
TEST(KvLedgerFuzz, States) { fuzz({{Lifetime::full, 0, 65}, {Lifetime::state, 0, 11}}, 5, 200000); }
TEST(KvLedgerFuzz, FewStatesAndAWindow) {
  fuzz({{Lifetime::full, 0, 65}, {Lifetime::state, 0, 10}, {Lifetime::window, 9, 41}, {Lifetime::state, 0, 13}}, 6,
       150000);
}

}  // namespace
}  // namespace octavo
