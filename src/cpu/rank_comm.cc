#include "cpu/rank_comm.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

constexpr std::int64_t kNumbersOfLine = 64;    // ranks write no cache line together
constexpr std::int64_t kNumbersAtOnce = 1024;  // sums that stay in the first cache

// given[0] + given[1] + ..., numbers [begin, end), in the place of each of them.
void sum_range(const std::vector<Tensor>& given, std::int64_t begin, std::int64_t end) {
  const DType dtype = given.front().dtype();
  const std::int64_t size = dtype_bytes(dtype, 1);
  std::array<float, kNumbersAtOnce> sum;
  std::array<float, kNumbersAtOnce> more;
  for (std::int64_t at = begin; at < end; at += kNumbersAtOnce) {
    const std::int64_t count = std::min(kNumbersAtOnce, end - at);
    load_row(given.front().raw() + at * size, dtype, count, sum.data());
    for (std::size_t rank = 1; rank < given.size(); ++rank) {
      load_row(given[rank].raw() + at * size, dtype, count, more.data());
      for (std::int64_t i = 0; i < count; ++i) sum[static_cast<std::size_t>(i)] += more[static_cast<std::size_t>(i)];
    }
    for (const Tensor& tensor : given) store_row(sum.data(), count, tensor.raw() + at * size, dtype);
  }
}

}  // namespace

bool RankComm::offer(const Tensor& x) {
  group_->given[static_cast<std::size_t>(rank_)] = x;
  return group_->meeting.meet();
}

void RankComm::all_reduce(const Tensor& x) {
  check(x.contiguous(), "a sum over ranks is of contiguous numbers");
  if (!offer(x)) return;
  for (const Tensor& other : group_->given)
    check(other.elements() == x.elements() && other.dtype() == x.dtype(), "ranks sum equal shapes");
  const std::int64_t lines = (x.elements() + kNumbersOfLine - 1) / kNumbersOfLine;
  const std::int64_t begin = lines * rank_ / size() * kNumbersOfLine;
  const std::int64_t end = std::min(x.elements(), lines * (rank_ + 1) / size() * kNumbersOfLine);
  sum_range(group_->given, begin, end);
  group_->meeting.meet();
}

void RankComm::all_gather_columns(const Tensor& x, const Tensor& out) {
  check(x.rank() == 2 && out.rank() == 2 && out.size(0) == x.size(0) && out.size(1) == size() * x.size(1) &&
            out.dtype() == x.dtype(),
        "shapes of all_gather_columns");
  if (!offer(x)) return;
  const std::int64_t bytes = dtype_bytes(x.dtype(), x.size(1));
  for (std::int64_t row = 0; row < x.size(0); ++row)
    for (int rank = 0; rank < size(); ++rank)
      std::memcpy(row_at(out, row) + rank * bytes, row_at(group_->given[static_cast<std::size_t>(rank)], row),
                  static_cast<std::size_t>(bytes));
  group_->meeting.meet();
}

Status RankComm::restore() {
  group_->meeting.restore();
  return {};
}

}  // namespace octavo::cpu
