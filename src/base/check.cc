#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace octavo {

void check_failed(std::string_view message, const std::source_location& where) {
  std::fprintf(stderr, "octavo: internal error at %s:%u: %.*s\n", where.file_name(),
               static_cast<unsigned>(where.line()), static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace octavo
