// What the rows of flags have in common: functions that read a value, check its range and store it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "app/options.h"
#include "base/json.h"
#include "base/strings.h"

namespace octavo {

using Set = std::function<Status(Options&, const std::string&)>;

// A whole number (8k, 2K and so on if `sizes`) in [low, high].
template <class Store>
Set count(std::int64_t low, std::int64_t high, bool sizes, Store store) {
  return [=](Options& options, const std::string& text) -> Status {
    OCTAVO_TRY(const std::int64_t value, sizes ? parse_size(text) : parse_int(text));
    if (value < low || value > high)
      return Error(in_quotes(text) + " is not between " + std::to_string(low) + " and " + std::to_string(high));
    store(options, value);
    return {};
  };
}

template <class Store>
Set number(double low, double high, bool low_itself, Store store) {
  return [=](Options& options, const std::string& text) -> Status {
    OCTAVO_TRY(const double value, parse_double(text));
    if (value < low || value > high || (value == low && !low_itself)) {
      const std::string from = low_itself ? "from " : "above ";
      return Error(in_quotes(text) + " is not a number " + from + to_text(Json(low)) + " to " + to_text(Json(high)));
    }
    store(options, value);
    return {};
  };
}

template <class Store>
Set any(Store store) {
  return [=](Options& options, const std::string& text) -> Status {
    store(options, text);
    return {};
  };
}

// Of flags that are taken without effect, or refused.
inline Set nothing() {
  return [](Options&, const std::string&) -> Status { return {}; };
}

}  // namespace octavo
