#include "checkpoint/shard.h"

#include <string>

#include "base/check.h"

namespace octavo {

Result<Range> cut_range(std::int64_t n, std::int64_t unit, RankOf rank, bool repeat) {
  check(rank.size >= 1 && rank.rank >= 0 && rank.rank < rank.size, "no such rank");
  if (unit < 1 || n < 1 || n % unit != 0)
    return Error(std::to_string(n) + " rows or columns are not whole units of " + std::to_string(unit));
  const std::int64_t units = n / unit;
  if (units % rank.size == 0) {
    const std::int64_t share = units / rank.size;
    return Range{rank.rank * share * unit, share * unit};
  }
  if (repeat && rank.size % units == 0) return Range{rank.rank / (rank.size / units) * unit, unit};
  return Error(std::to_string(n) + " in units of " + std::to_string(unit) + " (" + std::to_string(units) +
               " units) cannot be shared evenly by " + std::to_string(rank.size) + " ranks");
}

Result<Share> share_of(const PartRequest& request, std::int64_t in, RankOf rank) {
  check(request.first >= 0 && request.first + request.out <= request.rows_of_tensor(), "a part lies in its tensor");
  Share share{{0, request.out}, {0, in}};
  if (request.cut == Cut::rows) {
    OCTAVO_TRY(share.rows, cut_range(request.out, request.unit, rank, true));
  }
  if (request.cut == Cut::columns) {
    OCTAVO_TRY(share.cols, cut_range(in, request.unit, rank, false));
  }
  share.rows.begin += request.first;
  return share;
}

Status check_grain(Range range, std::int64_t n, std::int64_t grain) {
  if (range.begin % grain == 0 && (range.end() % grain == 0 || range.end() == n)) return {};
  return Error("the share from " + std::to_string(range.begin) + " to " + std::to_string(range.end()) + " of " +
               std::to_string(n) + " cuts through a block of " + std::to_string(grain) + "; use fewer ranks");
}

}  // namespace octavo
