// Merging a run of symbols of any length: millions of equal letters, a text that no pre-tokenizer splits.
//
// The result is that of the plain rule (lowest rank first, then leftmost). Pairs wait in one list a rank, in the order
// of the text: long runs walk through memory in order, which a heap of all pairs does not (measured: ten times slower
// on 27 MB of spaces). Time n log n at worst, memory about 20 bytes a symbol, no recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "text/merge_table.h"

namespace octavo {

class LongMerge {
 public:
  // Appends what `tokens` (overwritten) merge to.
  void run(const MergeTable& merges, std::int32_t* tokens, std::size_t count, std::vector<std::int32_t>& ids);

 private:
  // The pairs of one rank, by the position of their left token. Some are stale: the tokens there have merged since.
  struct Waiting {
    std::vector<std::int32_t> positions;
    std::size_t next = 0;
    bool started = false;            // positions are in order, and no more are appended
    std::vector<std::int32_t> late;  // heap of those that came after the start; smallest first

    void add(std::int32_t position);
    void start();
    bool empty() const { return next == positions.size() && late.empty(); }
    std::int32_t take();
  };

  void add_pair(std::int32_t left);
  void merge_at(std::int32_t left, std::uint32_t rank);  // unless that pair is stale
  MergeTable::Found pair_at(std::int32_t left) const;

  const MergeTable* merges_ = nullptr;
  std::int32_t* tokens_ = nullptr;  // -1: merged into the one before
  std::int32_t count_ = 0;
  std::vector<std::int32_t> next_;  // of a token: the next one; of the last symbol that merged into one: that token
  std::unordered_map<std::uint32_t, Waiting> waiting_;  // by rank
  std::vector<std::uint32_t> ranks_;                    // heap of the ranks that wait; smallest first
};

}  // namespace octavo
