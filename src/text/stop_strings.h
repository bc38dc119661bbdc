// Stop strings in streamed text: no part of one is ever shown, and how the text is cut into deltas changes nothing.
//
// The match that ends first counts; of several that end at the same byte, the longest. push() holds back the longest
// end of the text that could begin a stop string; finish() gives it out when the text is over. Text after a match is
// dropped. Time is linear in the text; memory is five times the stop strings', and what is held back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo {

// Of all stop strings of a request: far more than ten thousand tokens.
constexpr std::size_t kMaxStopBytes = std::size_t{1} << 18;

class StopStrings {
 public:
  struct Match {
    int index;             // which stop string
    std::size_t position;  // of its first byte, counted from the beginning of the text
  };

  // Refuses an empty stop string, which would match everywhere, and more than kMaxStopBytes. An empty list passes
  // everything through.
  static Result<StopStrings> create(std::vector<std::string> stops, bool include_in_output = false);

  std::string push(std::string_view delta);  // what may be shown now
  std::string finish();                      // what was held back; nothing after a match
  const std::optional<Match>& match() const { return match_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<std::uint32_t>
        border;               // of each prefix: its longest end that is also its beginning (Knuth-Morris-Pratt)
    std::size_t matched = 0;  // bytes of the pattern that end the text so far
  };

  std::vector<Pattern> patterns_;
  bool include_in_output_ = false;
  std::string held_;
  std::size_t seen_ = 0;  // bytes of text so far
  std::optional<Match> match_;
};

}  // namespace octavo
