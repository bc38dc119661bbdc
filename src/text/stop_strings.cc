#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace octavo {

Result<StopStrings> StopStrings::create(std::vector<std::string> stops, bool include_in_output) {
  StopStrings result;
  result.include_in_output_ = include_in_output;
  std::size_t bytes = 0;
  for (std::string& stop : stops) {
    if (stop.empty()) return Error("a stop string is empty: leave it out, or give it at least one character");
    if ((bytes += stop.size()) > kMaxStopBytes)
      return Error("the stop strings have more than " + std::to_string(kMaxStopBytes) + " bytes together");
    Pattern pattern;
    pattern.border.assign(stop.size() + 1, 0);
    for (std::uint32_t i = 1, length = 0; i < stop.size(); ++i) {
      while (length > 0 && stop[i] != stop[length]) length = pattern.border[length];
      if (stop[i] == stop[length]) ++length;
      pattern.border[i + 1] = length;
    }
    pattern.text = std::move(stop);
    result.patterns_.push_back(std::move(pattern));
  }
  return result;
}

std::string StopStrings::push(std::string_view delta) {
  if (match_) return {};
  held_.append(delta);
  std::size_t open = 0;  // the longest beginning of a stop string that ends the text
  for (std::size_t i = 0; i < delta.size() && !match_; ++i) {
    ++seen_;
    open = 0;
    std::size_t longest = 0;
    for (std::size_t p = 0; p < patterns_.size(); ++p) {
      Pattern& pattern = patterns_[p];
      std::size_t& matched = pattern.matched;
      while (matched > 0 && pattern.text[matched] != delta[i]) matched = pattern.border[matched];
      if (pattern.text[matched] == delta[i]) ++matched;
      open = std::max(open, matched);
      if (matched < pattern.text.size() || matched <= longest) continue;
      longest = matched;
      match_ = Match{static_cast<int>(p), seen_ - matched};
    }
    if (!match_) continue;
    const std::size_t behind = delta.size() - i - 1;
    held_.resize(held_.size() - behind - (include_in_output_ ? 0 : longest));
    return std::exchange(held_, {});
  }
  if (delta.empty()) return {};
  std::string shown = held_.substr(0, held_.size() - open);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopStrings::finish() { return match_ ? std::string() : std::exchange(held_, {}); }

}  // namespace octavo
