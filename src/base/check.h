// check(condition, message): for our own mistakes (shape, bounds, state), never for a wrong world (that is a Result).
// On failure the message and the place go to stderr and the process stops: an invariant that is gone cannot be served
// on.
#pragma once

#include <source_location>
#include <string_view>

namespace octavo {

[[noreturn]] void check_failed(std::string_view message, const std::source_location& where);

inline void check(bool condition, std::string_view message,
                  const std::source_location& where = std::source_location::current()) {
  if (!condition) [[unlikely]]
    check_failed(message, where);
}

}  // namespace octavo
