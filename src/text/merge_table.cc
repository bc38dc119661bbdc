#include "text/merge_table.h"

#include <algorithm>
#include <bit>

namespace octavo {

MergeTable::MergeTable(const std::vector<Merge>& merges) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(16, merges.size() * 2));
  slots_.resize(size);
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
  for (const Merge& merge : merges) {
    const std::uint64_t key = key_of(merge.left, merge.right);
    std::size_t slot = slot_of(key);
    while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
    slots_[slot] = {key, merge.rank, merge.merged};
  }
}

NeighbourSieve::NeighbourSieve(std::size_t expected_pairs) {
  const std::size_t size = std::bit_ceil(std::clamp<std::size_t>(expected_pairs * 8, 1 << 12, 1 << 24));
  bits_.resize(size / 64);
  shift_ = 64 - std::countr_zero(size);
}

void NeighbourSieve::add(std::int32_t left, std::int32_t right) {
  const std::uint64_t bit = bit_of(left, right);
  bits_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
}

}  // namespace octavo
