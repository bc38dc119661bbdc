// Python's ways to cut a string: split, rsplit, splitlines.
//
// The pieces look into the text, which must outlive them. An empty separator is refused. Time is linear in the text,
// apart from searches from the right, which are charged to the budget for their worst case.
#pragma once

#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace octavo::jinja {

// Pieces of one text, counted while they are held.
class Pieces {
 public:
  explicit Pieces(Budget& budget) : held_(budget, 0) {}
  void add(std::string_view piece) {
    held_.grow(sizeof(piece));
    pieces_.push_back(piece);
  }
  void reverse();
  const std::vector<std::string_view>& all() const { return pieces_; }

 private:
  Reservation held_;
  std::vector<std::string_view> pieces_;
};

// `separator` null: runs of white space, none at the ends. max_splits below zero: no limit.
Pieces split_text(std::string_view text, const std::string* separator, std::int64_t max_splits, Budget& budget);
Pieces split_text_right(std::string_view text, const std::string* separator, std::int64_t max_splits, Budget& budget);
Pieces split_lines(std::string_view text, bool keep_ends, Budget& budget);

// text.rfind(part) before `end`, charged for its worst case.
std::size_t find_text_right(std::string_view text, std::string_view part, Budget& budget);

}  // namespace octavo::jinja
