// PagePool: the states of the pages of one group.
//
//   free    no content worth keeping; handed out first
//   cached  nobody holds it, but it has a name in the index; evicted least recently used first when no page is free
//   held    by one or more sequences; with a name if its content is published
//
// A page changes state in constant time. Page 0 is the sink: never free, cached or held, never given out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/ledger.h"
#include "kv/prefix.h"

namespace octavo {

class PagePool {
 public:
  explicit PagePool(const PoolSpec& spec);

  const PoolSpec& spec() const { return spec_; }
  PoolUse use() const;
  std::int32_t takeable() const { return static_cast<std::int32_t>(free_.size()) + num_cached_; }

  // A page for one holder, its old content forgotten. There must be a takeable one.
  std::int32_t take();
  // One holder more for a page that is held or cached.
  void hold(std::int32_t page);
  // One holder less. The last one leaves a named page cached (the most recently used one), a nameless one free.
  void release(std::int32_t page);

  // Names a held page. Nothing happens if it has a name, or another page has this one: it stays private then.
  void publish(std::int32_t page, const PageHash& name);
  bool is_named(std::int32_t page) const { return at(page).named; }
  std::int32_t holders(std::int32_t page) const { return at(page).holders; }
  // A held page becomes private.
  void forget_name(std::int32_t page);
  std::optional<std::int32_t> find(const PageHash& name) const { return index_.find(name); }
  // All names go: cached pages become free, held ones private.
  void forget_names();

  // holders[p]: how many sequences hold page p, counted by the caller.
  void check_invariants(std::span<const std::int32_t> holders) const;

 private:
  // Neighbours in the list of cached pages; page 0 is its head: next(0) goes first, prev(0) went in last.
  struct Page {
    std::int32_t holders = 0;
    std::int32_t prev = kSinkPage;
    std::int32_t next = kSinkPage;
    bool named = false;
    PageHash name;
  };
  Page& at(std::int32_t page) { return pages_[static_cast<std::size_t>(page)]; }
  const Page& at(std::int32_t page) const { return pages_[static_cast<std::size_t>(page)]; }
  void link_last(std::int32_t page);
  void unlink(std::int32_t page);

  PoolSpec spec_;
  std::vector<Page> pages_;
  std::vector<std::int32_t> free_;  // a stack: the page freed last is warm in the processor's cache
  std::int32_t num_cached_ = 0;
  PrefixIndex index_;
};

}  // namespace octavo
