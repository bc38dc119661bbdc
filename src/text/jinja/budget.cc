#include "text/jinja/budget.h"

#include <utility>

namespace octavo::jinja {

void fail(std::string message) { throw Failure{std::move(message)}; }

void Budget::fail_steps() const { fail("the template does not end within " + std::to_string(max_steps_) + " steps"); }

void Budget::fail_memory() const {
  fail("the template needs more than " + std::to_string(max_memory_bytes_) + " bytes of memory");
}

void Budget::fail_depth() const {
  fail("the template nests calls and loops deeper than " + std::to_string(max_depth_) + " levels");
}

void TextBuilder::repeat(std::string_view part, std::size_t count) {
  if (part.empty() || count == 0) return;
  std::size_t num_bytes = 0;
  if (__builtin_mul_overflow(part.size(), count, &num_bytes)) num_bytes = static_cast<std::size_t>(-1);
  held_.grow(num_bytes);
  text_.reserve(text_.size() + num_bytes);
  for (std::size_t i = 0; i < count; ++i) text_ += part;
}

}  // namespace octavo::jinja
