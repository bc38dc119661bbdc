// Which rows and columns of a tensor one rank holds, and in which order its rows stand in the file. Plain arithmetic;
// binders use it. Refuses sizes that do not divide among the ranks, with the numbers in the message.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "checkpoint/binder.h"

namespace octavo {

struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return begin + count; }
};

// The share of `rank` in n rows (or columns) that stay together in units. Fewer units than ranks: with `repeat`
// neighbouring ranks hold the same unit, without it (columns: the shares are summed) that is an error.
Result<Range> cut_range(std::int64_t n, std::int64_t unit, RankOf rank, bool repeat);

// The rows of the tensor and the columns of `in` that `rank` holds of a part.
struct Share {
  Range rows, cols;
};
Result<Share> share_of(const PartRequest& request, std::int64_t in, RankOf rank);

// Rows [begin, end) must start and end on a boundary of `grain` or at the edges of n: a block, or a block of scales.
Status check_grain(Range range, std::int64_t n, std::int64_t grain);

// Row r of the model -> row of the file; `paired` is NameMap::paired_rows.
constexpr std::int64_t file_row(std::int64_t row, std::int64_t paired) {
  if (paired == 0) return row;
  const std::int64_t in_head = row % paired;
  const std::int64_t half = paired / 2;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

}  // namespace octavo
