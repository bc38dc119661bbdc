#include "engine/snapshot_points.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace octavo {
namespace {

constexpr int kFirstPages = 4;

}  // namespace

int first_snapshot(int page_size) { return kFirstPages * page_size; }

int next_snapshot(const Sequence& sequence, int after, int page_size) {
  const int first = first_snapshot(page_size);
  std::int64_t next = first;
  while (next <= after) next *= 2;
  const auto consider = [&](int point) {
    if (point > after) next = std::min<std::int64_t>(next, point);
  };
  if (const int last_page = (sequence.prompt_size - 1) / page_size * page_size; last_page >= first) consider(last_page);
  consider(sequence.shared_pages * page_size);
  return static_cast<int>(std::min<std::int64_t>(next, std::numeric_limits<int>::max()));
}

}  // namespace octavo
