#include "kv/ledger.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/page_pool.h"
#include "kv/snapshot.h"

namespace octavo {
namespace {

// An id is a slot and a generation, so that a dead id is noticed when its slot lives again.
constexpr int kSlotBits = 20;
constexpr std::uint32_t kMaxSlots = 1u << kSlotBits;
constexpr std::uint32_t kGenerationMask = (1u << (31 - kSlotBits)) - 1;

struct Table {
  std::vector<std::int32_t> pages;
  std::int32_t first_live = 0;  // entries before it left the window
  Snapshot snapshot;            // of a state pool, where `pages` is the record being written
  bool is_left = false;         // that record becomes the snapshot with this commit
};

struct Sequence {
  bool open = false;
  std::uint32_t generation = 0;
  int committed = 0;      // tokens whose content is in the pages
  int reserved = 0;       // tokens that may be written
  int num_published = 0;  // pages of the chain already offered to the index
  bool publishes = true;
  std::vector<Table> tables;    // per pool
  std::int32_t next_free = -1;  // slot, while this one is free
};

}  // namespace

struct KvLedger::State {
  int page_size = 0;
  bool prefix_caching = false;
  std::vector<PagePool> pools;
  std::vector<Sequence> sequences;
  // The slot that died first lives again first. Linked, so that giving one back takes no memory.
  std::int32_t first_free = -1;
  std::int32_t last_free = -1;

  Sequence& at(SequenceId id);
  bool is_state(std::size_t pool) const { return pools[pool].spec().lifetime == Lifetime::state; }
  int first_needed_page(const PoolSpec& spec, int length) const;
  std::int64_t pages_missing(const Sequence& sequence, std::size_t pool, int tokens) const;
  int longest_hit(std::span<const PageHash> chain, int max_tokens, bool with_states) const;
  void take_over(Sequence& sequence, std::span<const PageHash> chain);
  void publish(Sequence& sequence, int length, std::span<const PageHash> chain);
  bool leaves_snapshot(const Sequence& sequence, std::size_t pool, int length, std::span<const PageHash> chain);
  void leave_window(Table& table, PagePool& pool, int length) const;
  void check_table(const Sequence& sequence, std::size_t pool, std::vector<std::int32_t>& holders) const;
  void check_writable(const Sequence& sequence, std::size_t pool, std::span<const std::int32_t> holders) const;
};

Sequence& KvLedger::State::at(SequenceId id) {
  const auto bits = static_cast<std::uint32_t>(id);
  const std::size_t slot = bits & (kMaxSlots - 1);
  check(id >= 0 && slot < sequences.size() && sequences[slot].open && sequences[slot].generation == bits >> kSlotBits,
        "this sequence is not open in the ledger");
  return sequences[slot];
}

// The first page that a query at position `length` or later can see.
int KvLedger::State::first_needed_page(const PoolSpec& spec, int length) const {
  if (spec.lifetime != Lifetime::window) return 0;
  return std::max(0, length - spec.window + 1) / page_size;
}

std::int64_t KvLedger::State::pages_missing(const Sequence& sequence, std::size_t pool, int tokens) const {
  if (tokens == 0) return 0;
  if (is_state(pool)) return needs_record(pools[pool], sequence.tables[pool].pages, sequence.tables[pool].snapshot);
  const auto present = static_cast<std::int64_t>(sequence.tables[pool].pages.size());
  const std::int64_t end = std::int64_t{sequence.committed} + tokens;
  return std::max<std::int64_t>(0, (end + page_size - 1) / page_size - present);
}

// The most pages of the chain, up to max_tokens, whose content every pool still has as far as it is needed.
int KvLedger::State::longest_hit(std::span<const PageHash> chain, int max_tokens, bool with_states) const {
  if (!prefix_caching || max_tokens <= 0) return 0;
  int hit = static_cast<int>(std::min(chain.size(), static_cast<std::size_t>(max_tokens / page_size)));
  const auto has = [&](const PagePool& pool, int page) {
    return pool.find(chain[static_cast<std::size_t>(page)]).has_value();
  };
  for (const PagePool& pool : pools) {
    if (pool.spec().lifetime != Lifetime::full) continue;
    int run = 0;
    while (run < hit && has(pool, run)) ++run;
    hit = run;
  }
  // A page missing inside a window ends every hit that would need it: all that are longer than its index. Where there
  // is no snapshot no hit ends. A shorter hit has other needs, so the pools are asked again until all agree.
  for (int before = hit + 1; before > hit;) {
    before = hit;
    for (const PagePool& pool : pools) {
      if (pool.spec().lifetime == Lifetime::window) {
        for (int page = hit - 1; page >= first_needed_page(pool.spec(), hit * page_size); --page)
          if (!has(pool, page)) hit = page;
      } else if (pool.spec().lifetime == Lifetime::state && with_states) {
        while (hit > 0 && !has(pool, hit - 1)) --hit;
      }
    }
  }
  return hit;
}

void KvLedger::State::take_over(Sequence& sequence, std::span<const PageHash> chain) {
  const int tokens = static_cast<int>(chain.size()) * page_size;
  for (std::size_t pool = 0; pool < pools.size(); ++pool) {
    Table& table = sequence.tables[pool];
    if (is_state(pool)) {
      table.snapshot = {pools[pool].find(chain.back()).value(), static_cast<int>(chain.size())};
      pools[pool].hold(table.snapshot.record);
      continue;
    }
    table.first_live = first_needed_page(pools[pool].spec(), tokens);
    table.pages.assign(chain.size(), kSinkPage);
    for (auto i = static_cast<std::size_t>(table.first_live); i < chain.size(); ++i) {
      table.pages[i] = pools[pool].find(chain[i]).value();
      pools[pool].hold(table.pages[i]);
    }
  }
  sequence.committed = sequence.reserved = tokens;
  sequence.num_published = static_cast<int>(chain.size());
}

void KvLedger::State::publish(Sequence& sequence, int length, std::span<const PageHash> chain) {
  if (!prefix_caching || !sequence.publishes) return;
  const int end = std::min(length / page_size, static_cast<int>(chain.size()));
  for (int i = sequence.num_published; i < end; ++i) {
    const auto page = static_cast<std::size_t>(i);
    for (std::size_t pool = 0; pool < pools.size(); ++pool) {
      if (is_state(pool)) continue;
      if (const std::int32_t number = sequence.tables[pool].pages[page]; number != kSinkPage)
        pools[pool].publish(number, chain[page]);
    }
  }
  sequence.num_published = std::max(sequence.num_published, end);
  for (std::size_t pool = 0; pool < pools.size(); ++pool)
    if (is_state(pool)) octavo::publish(pools[pool], sequence.tables[pool].snapshot, chain);
}

// Whether the record that was written is to become a snapshot: not where another sequence has left this one behind.
bool KvLedger::State::leaves_snapshot(const Sequence& sequence, std::size_t pool, int length,
                                      std::span<const PageHash> chain) {
  const std::vector<std::int32_t>& written = sequence.tables[pool].pages;
  if (!prefix_caching || !sequence.publishes || written.empty() || length % page_size != 0) return false;
  const Snapshot snapshot{written.front(), length / page_size};
  octavo::publish(pools[pool], snapshot, chain);
  return static_cast<std::size_t>(snapshot.num_pages) > chain.size() || pools[pool].is_named(snapshot.record);
}

KvLedger::KvLedger(int page_size, std::vector<PoolSpec> pools, bool prefix_caching)
    : state_(std::make_unique<State>()) {
  check(page_size >= 1, "a page holds at least one token");
  state_->page_size = page_size;
  state_->prefix_caching = prefix_caching;
  for (const PoolSpec& spec : pools) state_->pools.emplace_back(spec);
}

KvLedger::~KvLedger() = default;

int KvLedger::page_size() const { return state_->page_size; }
int KvLedger::num_pools() const { return static_cast<int>(state_->pools.size()); }
PoolUse KvLedger::use(int pool) const { return state_->pools.at(static_cast<std::size_t>(pool)).use(); }

SequenceId KvLedger::open() {
  std::vector<Table> tables(state_->pools.size());
  auto slot = static_cast<std::size_t>(state_->first_free);
  if (state_->first_free < 0) {
    slot = state_->sequences.size();
    check(slot < kMaxSlots, "more sequences are open than the ledger can name");
    state_->sequences.emplace_back();
  } else {
    state_->first_free = state_->sequences[slot].next_free;
    if (state_->first_free < 0) state_->last_free = -1;
  }
  const std::uint32_t generation = state_->sequences[slot].generation;
  state_->sequences[slot] = Sequence{.open = true, .generation = generation, .tables = std::move(tables)};
  return static_cast<SequenceId>(generation << kSlotBits | static_cast<std::uint32_t>(slot));
}

void KvLedger::close(SequenceId id) {
  Sequence& sequence = state_->at(id);
  // The tail is released first, so that it is evicted first: without its head a chain's tail is of no use.
  for (std::size_t pool = 0; pool < state_->pools.size(); ++pool) {
    std::vector<std::int32_t>& pages = sequence.tables[pool].pages;
    for (auto page = pages.rbegin(); page != pages.rend(); ++page)
      if (*page != kSinkPage) state_->pools[pool].release(*page);
    release(state_->pools[pool], sequence.tables[pool].snapshot);
  }
  const std::uint32_t generation = (sequence.generation + 1) & kGenerationMask;
  sequence = Sequence{.open = false, .generation = generation, .tables = {}};
  const auto slot = static_cast<std::int32_t>(static_cast<std::uint32_t>(id) & (kMaxSlots - 1));
  if (state_->last_free < 0)
    state_->first_free = slot;
  else
    state_->sequences[static_cast<std::size_t>(state_->last_free)].next_free = slot;
  state_->last_free = slot;
}

int KvLedger::reuse(SequenceId id, std::span<const PageHash> chain, int max_tokens) {
  Sequence& sequence = state_->at(id);
  check(sequence.reserved == 0, "only a sequence without pages can take over a prefix");
  const int hit = state_->longest_hit(chain, max_tokens, true);
  if (hit > 0) state_->take_over(sequence, chain.first(static_cast<std::size_t>(hit)));
  return sequence.committed;
}

int KvLedger::reusable_without_states(std::span<const PageHash> chain, int max_tokens) const {
  return state_->longest_hit(chain, max_tokens, false) * state_->page_size;
}

bool KvLedger::can_extend(SequenceId id, int tokens) const {
  check(tokens >= 0, "a sequence grows by a count of tokens");
  const Sequence& sequence = state_->at(id);
  for (std::size_t pool = 0; pool < state_->pools.size(); ++pool)
    if (state_->pages_missing(sequence, pool, tokens) > state_->pools[pool].takeable()) return false;
  return true;
}

bool KvLedger::extend(SequenceId id, int tokens) {
  if (!can_extend(id, tokens)) return false;
  Sequence& sequence = state_->at(id);
  for (std::size_t pool = 0; pool < state_->pools.size(); ++pool) {
    std::vector<std::int32_t>& pages = sequence.tables[pool].pages;
    if (state_->is_state(pool)) {
      if (tokens > 0) make_writable(state_->pools[pool], pages, sequence.tables[pool].snapshot);
      continue;
    }
    const std::int64_t missing = state_->pages_missing(sequence, pool, tokens);
    // Room in the table before a page is taken, or the page would be lost where no memory is found. Doubled, so that a
    // long sequence's table is not copied for every page.
    const std::size_t wanted = pages.size() + static_cast<std::size_t>(missing);
    if (wanted > pages.capacity()) pages.reserve(std::max(wanted, 2 * pages.capacity()));
    for (std::int64_t i = 0; i < missing; ++i) pages.push_back(state_->pools[pool].take());
  }
  sequence.reserved = std::max(sequence.reserved, sequence.committed + tokens);
  return true;
}

// All that takes memory comes first: who catches its lack asks again, without names.
void KvLedger::commit(SequenceId id, int length, std::span<const PageHash> chain, bool keeps_states) {
  Sequence& sequence = state_->at(id);
  check(length >= sequence.committed && length <= sequence.reserved,
        "only tokens with room of their own can be committed");
  state_->publish(sequence, length, chain);
  const bool went_on = length > sequence.committed;
  for (std::size_t pool = 0; pool < state_->pools.size(); ++pool)
    sequence.tables[pool].is_left =
        keeps_states && went_on && state_->is_state(pool) && state_->leaves_snapshot(sequence, pool, length, chain);
  sequence.committed = length;
  for (std::size_t pool = 0; pool < state_->pools.size(); ++pool) {
    Table& table = sequence.tables[pool];
    if (!state_->is_state(pool)) {
      state_->leave_window(table, state_->pools[pool], length);
      continue;
    }
    if (went_on && !table.pages.empty()) release(state_->pools[pool], table.snapshot);  // it was copied
    if (!table.is_left) continue;
    table.snapshot = {table.pages.front(), length / state_->page_size};
    table.pages.clear();
  }
}

void KvLedger::State::leave_window(Table& table, PagePool& pool, int length) const {
  const int needed = first_needed_page(pool.spec(), length);
  for (; table.first_live < needed && static_cast<std::size_t>(table.first_live) < table.pages.size();
       ++table.first_live) {
    std::int32_t& page = table.pages[static_cast<std::size_t>(table.first_live)];
    pool.release(page);
    page = kSinkPage;
  }
}

int KvLedger::reserved_tokens(SequenceId id) const { return state_->at(id).reserved; }

std::span<const std::int32_t> KvLedger::pages(SequenceId id, int pool) const {
  return state_->at(id).tables.at(static_cast<std::size_t>(pool)).pages;
}

std::int32_t KvLedger::snapshot(SequenceId id, int pool) const {
  return state_->at(id).tables.at(static_cast<std::size_t>(pool)).snapshot.record;
}

void KvLedger::reset_prefix_cache() {
  for (PagePool& pool : state_->pools) pool.forget_names();
  // What these sequences compute from now on rests on what was just forgotten (other weights, other scales).
  for (Sequence& sequence : state_->sequences)
    if (sequence.open && sequence.reserved > 0) sequence.publishes = false;
}

bool KvLedger::publishes(SequenceId id) const { return state_->at(id).publishes; }

void KvLedger::State::check_table(const Sequence& sequence, std::size_t pool,
                                  std::vector<std::int32_t>& holders) const {
  const Table& table = sequence.tables[pool];
  const std::size_t size = static_cast<std::size_t>(page_size);
  check(is_state(pool) ? table.pages.size() <= 1
                       : table.pages.size() * size >= static_cast<std::size_t>(sequence.reserved),
        "a table covers the reserved tokens");
  if (const std::int32_t kept = table.snapshot.record; kept != kSinkPage) {
    check(is_state(pool) && table.snapshot.num_pages * page_size <= sequence.committed,
          "a snapshot is of what was computed");
    ++holders.at(static_cast<std::size_t>(kept));
  }
  for (std::size_t i = 0; i < table.pages.size(); ++i) {
    check((table.pages[i] == kSinkPage) == (i < static_cast<std::size_t>(table.first_live)),
          "exactly the entries before the window read the sink");
    if (table.pages[i] != kSinkPage) ++holders.at(static_cast<std::size_t>(table.pages[i]));
  }
}

// A page that may still be written belongs to one sequence and has no name.
void KvLedger::State::check_writable(const Sequence& sequence, std::size_t pool,
                                     std::span<const std::int32_t> holders) const {
  const std::vector<std::int32_t>& pages = sequence.tables[pool].pages;
  const int full_pages = is_state(pool) ? 0 : sequence.committed / page_size;
  for (auto i = static_cast<std::size_t>(full_pages); i < pages.size(); ++i)
    check(holders[static_cast<std::size_t>(pages[i])] == 1 && !pools[pool].is_named(pages[i]),
          "a page that may be written is private");
}

void KvLedger::check_invariants() const {
  for (std::size_t pool = 0; pool < state_->pools.size(); ++pool) {
    std::vector<std::int32_t> holders(static_cast<std::size_t>(state_->pools[pool].spec().num_pages), 0);
    for (const Sequence& sequence : state_->sequences)
      if (sequence.open) state_->check_table(sequence, pool, holders);
    for (const Sequence& sequence : state_->sequences)
      if (sequence.open) state_->check_writable(sequence, pool, holders);
    state_->pools[pool].check_invariants(holders);
  }
  std::size_t num_open = 0;
  std::size_t num_free = 0;
  for (std::int32_t slot = state_->first_free; slot >= 0; ++num_free)
    slot = state_->sequences[static_cast<std::size_t>(slot)].next_free;
  for (const Sequence& sequence : state_->sequences) {
    if (sequence.open) ++num_open;
    check(sequence.committed <= sequence.reserved, "nothing is committed without room");
  }
  check(num_open + num_free == state_->sequences.size(), "a slot is open or free");
}

}  // namespace octavo
