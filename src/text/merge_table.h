// Which two tokens merge into which, and how early: the heart of a byte pair encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace octavo {

struct Merge {
  std::int32_t left, right, merged;
  std::uint32_t rank;  // lower is earlier
};

class MergeTable {
 public:
  static constexpr std::uint32_t kNever = 0xFFFFFFFF;
  struct Found {
    std::uint32_t rank = kNever;
    std::int32_t merged = -1;
  };

  // Of several merges of the same pair the last one counts.
  explicit MergeTable(const std::vector<Merge>& merges);

  Found find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return {slots_[slot].rank, slots_[slot].merged};
      if (slots_[slot].key == kEmpty) return {};
    }
  }

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    std::uint32_t rank = kNever;
    std::int32_t merged = -1;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15) >> shift_; }

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t mask_ = 0;
  int shift_ = 0;
};

// Pairs of neighbours that may stand inside a token. Where text has another pair no merge can ever reach across, so
// text may be cut there, exactly; that bounds the work on text that no pre-tokenizer splits. A sieve: it may know too
// many.
class NeighbourSieve {
 public:
  explicit NeighbourSieve(std::size_t expected_pairs);
  void add(std::int32_t left, std::int32_t right);
  bool may_join(std::int32_t left, std::int32_t right) const {
    const std::uint64_t bit = bit_of(left, right);
    return bits_[bit >> 6] >> (bit & 63) & 1;
  }

 private:
  std::uint64_t bit_of(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key =
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
    return (key * 0xD6E8FEB86659FD93) >> shift_;
  }
  std::vector<std::uint64_t> bits_;
  int shift_ = 0;
};

}  // namespace octavo
