#include "text/jinja/replace.h"

#include "text/jinja/code_points.h"

namespace octavo::jinja {

std::string replaced(std::string_view text, std::string_view part, std::string_view by, std::int64_t count,
                     Budget& budget) {
  TextBuilder out(budget);
  budget.scan(text.size());
  for (; count != 0; --count) {
    if (part.empty()) {
      out.append(by);
      if (text.empty()) return out.take();
      std::size_t size = 0;
      decode_code_point(text, size);
      out.append(text.substr(0, size));
      text.remove_prefix(size);
      continue;
    }
    const std::size_t found = find_text(text, part);
    if (found == std::string_view::npos) break;
    out.append(text.substr(0, found));
    out.append(by);
    text.remove_prefix(found + part.size());
  }
  out.append(text);
  return out.take();
}

std::string padded_text(const Text& text, std::int64_t width, std::string_view fill, char side, Budget& budget) {
  const std::int64_t missing = width - static_cast<std::int64_t>(text.length);
  if (missing <= 0) return text.bytes;
  // Python puts the odd character of a centred text to the left when the width is odd.
  const std::int64_t left = side == 'l' ? 0 : side == 'r' ? missing : missing / 2 + (missing & width & 1);
  TextBuilder out(budget);
  out.repeat(fill, static_cast<std::size_t>(left));
  out.append(text.bytes);
  out.repeat(fill, static_cast<std::size_t>(missing - left));
  return out.take();
}

}  // namespace octavo::jinja
