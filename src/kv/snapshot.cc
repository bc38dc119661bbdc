#include "kv/snapshot.h"

#include <utility>

namespace octavo {

bool needs_record(const PagePool& pool, const std::vector<std::int32_t>& written, const Snapshot& snapshot) {
  if (!written.empty()) return false;
  return snapshot.record == kSinkPage || pool.takeable() > 0 || pool.holders(snapshot.record) > 1;
}

void make_writable(PagePool& pool, std::vector<std::int32_t>& written, Snapshot& snapshot) {
  if (!written.empty()) return;
  written.reserve(1);
  if (needs_record(pool, written, snapshot)) {
    written.push_back(pool.take());
    return;
  }
  pool.forget_name(snapshot.record);
  written.push_back(std::exchange(snapshot.record, kSinkPage));
}

void publish(PagePool& pool, const Snapshot& snapshot, std::span<const PageHash> chain) {
  const auto num_pages = static_cast<std::size_t>(snapshot.num_pages);
  if (snapshot.record != kSinkPage && num_pages <= chain.size()) pool.publish(snapshot.record, chain[num_pages - 1]);
}

void release(PagePool& pool, Snapshot& snapshot) {
  if (snapshot.record != kSinkPage) pool.release(std::exchange(snapshot.record, kSinkPage));
}

}  // namespace octavo
