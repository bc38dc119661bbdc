#include "kv/page_pool.h"

#include "base/check.h"

namespace octavo {

PagePool::PagePool(const PoolSpec& spec) : spec_(spec) {
  check(spec.num_pages >= 1, "a pool has at least its sink page");
  check(spec.lifetime != Lifetime::window || spec.window >= 1, "a window pool needs its window");
  pages_.resize(static_cast<std::size_t>(spec.num_pages));
  free_.reserve(pages_.size());
  for (std::int32_t page = spec.num_pages - 1; page > kSinkPage; --page) free_.push_back(page);
}

PoolUse PagePool::use() const {
  PoolUse use;
  use.total = spec_.num_pages - 1;
  use.free = static_cast<std::int32_t>(free_.size());
  use.cached = num_cached_;
  use.held = use.total - use.free - use.cached;
  return use;
}

std::int32_t PagePool::take() {
  std::int32_t page = kSinkPage;
  if (!free_.empty()) {
    page = free_.back();
    free_.pop_back();
  } else {
    page = at(kSinkPage).next;
    check(page != kSinkPage, "a page was taken from a pool that has none left");
    unlink(page);
    index_.erase(at(page).name);
    at(page).named = false;
  }
  at(page).holders = 1;
  return page;
}

void PagePool::hold(std::int32_t page) {
  check(page > kSinkPage && page < spec_.num_pages, "only a page of this pool can be held");
  if (at(page).holders == 0) {
    check(at(page).named, "a free page has no content to share");
    unlink(page);
  }
  ++at(page).holders;
}

void PagePool::release(std::int32_t page) {
  check(page > kSinkPage && page < spec_.num_pages && at(page).holders > 0, "only a held page can be released");
  if (--at(page).holders > 0) return;
  if (at(page).named)
    link_last(page);
  else
    free_.push_back(page);
}

void PagePool::publish(std::int32_t page, const PageHash& name) {
  check(page > kSinkPage && page < spec_.num_pages && at(page).holders > 0, "only a held page can be published");
  if (at(page).named || !index_.insert(name, page)) return;
  at(page).named = true;
  at(page).name = name;
}

void PagePool::forget_name(std::int32_t page) {
  check(page > kSinkPage && page < spec_.num_pages && at(page).holders > 0, "only a held page becomes private");
  if (!at(page).named) return;
  index_.erase(at(page).name);
  at(page).named = false;
}

void PagePool::forget_names() {
  index_.clear();
  while (at(kSinkPage).next != kSinkPage) {
    const std::int32_t page = at(kSinkPage).next;
    unlink(page);
    free_.push_back(page);
  }
  for (Page& page : pages_) page.named = false;
}

void PagePool::link_last(std::int32_t page) {
  const std::int32_t last = at(kSinkPage).prev;
  at(page).prev = last;
  at(page).next = kSinkPage;
  at(last).next = page;
  at(kSinkPage).prev = page;
  ++num_cached_;
}

void PagePool::unlink(std::int32_t page) {
  at(at(page).prev).next = at(page).next;
  at(at(page).next).prev = at(page).prev;
  --num_cached_;
}

void PagePool::check_invariants(std::span<const std::int32_t> holders) const {
  enum class Place : std::uint8_t { none, free, cached };
  std::vector<Place> places(pages_.size(), Place::none);
  for (const std::int32_t page : free_) {
    check(page > kSinkPage && page < spec_.num_pages, "a page number on the free stack exists and is not the sink");
    check(places[static_cast<std::size_t>(page)] == Place::none, "a page is free once");
    places[static_cast<std::size_t>(page)] = Place::free;
  }
  std::int32_t num_cached = 0;
  for (std::int32_t page = at(kSinkPage).next; page != kSinkPage; page = at(page).next) {
    check(places[static_cast<std::size_t>(page)] == Place::none, "a page is free or cached, and cached once");
    check(at(at(page).next).prev == page, "the list of cached pages reads the same both ways");
    places[static_cast<std::size_t>(page)] = Place::cached;
    ++num_cached;
  }
  check(num_cached == num_cached_, "the count of cached pages matches their list");

  std::size_t num_named = 0;
  for (std::int32_t page = kSinkPage + 1; page < spec_.num_pages; ++page) {
    const auto i = static_cast<std::size_t>(page);
    check(at(page).holders == holders[i], "a page counts the sequences that hold it");
    check((at(page).holders > 0) == (places[i] == Place::none), "a page is held, cached or free, and nothing else");
    check(at(page).named || places[i] != Place::cached, "a cached page has a name");
    check(!at(page).named || places[i] != Place::free, "a free page has no name");
    if (at(page).named) {
      ++num_named;
      check(index_.find(at(page).name) == page, "the index knows a page by its name");
    }
  }
  check(num_named == index_.size(), "the index names nothing but these pages");
  check(holders[kSinkPage] == 0 && at(kSinkPage).holders == 0, "nobody holds the sink");
}

}  // namespace octavo
