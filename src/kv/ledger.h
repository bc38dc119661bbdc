// KvLedger: which page belongs to whom, how often it is shared, what may be evicted. Host bookkeeping; knows no device.
//
// Each group has its own pool of pages. A page is free (nothing worth keeping), cached (nobody holds it, but the prefix
// index knows its content; evicted least recently used first), or held by one or more sequences. Page 0 is the sink and
// is never given out. In a pool of states a page is a record: a sequence writes one, and those that it left behind
// where it was asked to are snapshots, cached under the name of the page that ends there (kv/snapshot.h). Touched by
// the engine's thread alone. All calls are O(pages touched).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv/group.h"
#include "kv/prefix.h"

namespace octavo {

using SequenceId = std::int32_t;
constexpr std::int32_t kSinkPage = 0;

struct PoolSpec {
  Lifetime lifetime = Lifetime::full;
  int window = 0;
  std::int32_t num_pages = 0;  // the sink included
};

struct PoolUse {
  std::int32_t total = 0;  // pages that can hold tokens (without the sink)
  std::int32_t held = 0;
  std::int32_t cached = 0;  // reusable content, evictable
  std::int32_t free = 0;
};

class KvLedger {
 public:
  KvLedger(int page_size, std::vector<PoolSpec> pools, bool prefix_caching);
  ~KvLedger();

  int page_size() const;
  int num_pools() const;
  PoolUse use(int pool) const;

  SequenceId open();
  // Gives all pages back; published ones stay cached. The id is dead afterwards.
  void close(SequenceId sequence);

  // For a sequence without pages: takes over the longest cached prefix of this chain, at most max_tokens. In window
  // pools only the pages that the window still needs must be cached, in state pools a snapshot of its very end. Returns
  // the tokens taken over, a multiple of page_size. A prompt that is cached whole still needs one token computed: pass
  // its length - 1.
  int reuse(SequenceId sequence, std::span<const PageHash> chain, int max_tokens);
  // What reuse() would return if every page had its snapshot: where a snapshot would have been of use.
  int reusable_without_states(std::span<const PageHash> chain, int max_tokens) const;

  // Whether `tokens` tokens after the committed ones would fit now, evicting cached pages if need be; extend then makes
  // room for them in every pool, or changes nothing and says false. With `length` tokens committed, [length, length +
  // tokens) may be written afterwards. Room that is already there is used first, so asking again after an abandoned
  // step costs nothing.
  bool can_extend(SequenceId sequence, int tokens) const;
  bool extend(SequenceId sequence, int tokens);

  // The first `length` tokens have been computed (never fewer than before). Full pages are published under the names of
  // `chain` (may be shorter: the rest stays private); a page whose name another page has already stays private. Pages
  // that no later query can see leave their window pools: those that end at or before token length - window + 1.
  // keeps_states: a snapshot of the states is left behind, if `length` ends a page and nobody left it before.
  void commit(SequenceId sequence, int length, std::span<const PageHash> chain, bool keeps_states = false);

  int reserved_tokens(SequenceId sequence) const;  // room made so far
  // Page table of a sequence: entry i holds tokens [i * page_size, ...); pages that left a window read kSinkPage.
  // Of a state pool: the one record that steps write; none before extend() has made room for them.
  std::span<const std::int32_t> pages(SequenceId sequence, int pool) const;
  // The snapshot that holds the state so far, and is copied into that record before the next token is computed;
  // kSinkPage: the record itself holds it.
  std::int32_t snapshot(SequenceId sequence, int pool) const;

  // Forgets all cached content that nobody holds; held pages lose their names too, and the sequences that hold any
  // publish nothing from now on: what they compute rests on what was to be forgotten.
  void reset_prefix_cache();
  // Whether what this sequence computes may be others' too: not if it held pages when the cache was reset.
  bool publishes(SequenceId sequence) const;

  // Aborts the process if any invariant is broken (tests): every page is in exactly one state, counts match holders,
  // the index names only live content, no page is in two private tables.
  void check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octavo
