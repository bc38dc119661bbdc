// Texts by id and ids by text, compact: one arena of bytes and an open hash table over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

std::uint64_t hash_bytes(std::string_view bytes);

class TokenTable {
 public:
  // Ids are given in order, 0, 1, 2, ... A text that `find` shall know must not be in the table already: false, and the
  // text can then be had by its id only.
  bool add(std::string_view text, bool findable);

  int size() const { return static_cast<int>(ends_.size()); }
  std::string_view text(int id) const;
  int find(std::string_view text) const;  // -1: unknown
  std::size_t longest_findable() const { return longest_; }

 private:
  std::size_t slot_of(std::string_view text) const;  // where it is or would be
  void grow();

  std::string arena_;
  std::vector<std::size_t> ends_;
  std::vector<std::int32_t> slots_;  // id or -1; a power of two, at most half full
  std::size_t findable_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace octavo
