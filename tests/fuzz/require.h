// What a fuzz target promises of every input: a broken promise ends the process, and the driver keeps the input.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace octavo {

inline void require(bool holds, const char* what, std::string_view shown) {
  if (holds) return;
  const int size = static_cast<int>(std::min<std::size_t>(shown.size(), 4000));
  std::fprintf(stderr, "\nthis must hold: %s\n%.*s\n", what, size, shown.data());
  std::abort();
}

}  // namespace octavo
