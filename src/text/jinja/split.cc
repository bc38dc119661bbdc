#include "text/jinja/split.h"

#include <algorithm>

#include "text/jinja/code_points.h"

namespace octavo::jinja {
namespace {

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::size_t word_size(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t behind = at;
    if (is_space(decode_code_point(text, behind))) break;
    at = behind;
  }
  return at;
}

std::size_t last_word_size(std::string_view text) {
  std::size_t at = text.size();
  while (at > 0) {
    std::size_t begin = at - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    std::size_t behind = begin;
    if (is_space(decode_code_point(text, behind))) break;
    at = begin;
  }
  return text.size() - at;
}

}  // namespace

void Pieces::reverse() { std::reverse(pieces_.begin(), pieces_.end()); }

Pieces split_text(std::string_view text, const std::string* separator, std::int64_t max_splits, Budget& budget) {
  budget.scan(text.size());
  Pieces pieces(budget);
  if (!separator) {
    text = strip(text, true, false);
    for (; !text.empty() && max_splits != 0; --max_splits) {
      const std::size_t size = word_size(text);
      pieces.add(text.substr(0, size));
      text = strip(text.substr(size), true, false);
    }
    if (!text.empty()) pieces.add(text);
    return pieces;
  }
  if (separator->empty()) fail("split needs a separator that is not empty");
  for (; max_splits != 0; --max_splits) {
    const std::size_t found = find_text(text, *separator);
    if (found == std::string_view::npos) break;
    pieces.add(text.substr(0, found));
    text.remove_prefix(found + separator->size());
  }
  pieces.add(text);
  return pieces;
}

Pieces split_text_right(std::string_view text, const std::string* separator, std::int64_t max_splits, Budget& budget) {
  budget.scan(text.size());
  Pieces pieces(budget);
  if (!separator) {
    text = strip(text, false, true);
    for (; !text.empty() && max_splits != 0; --max_splits) {
      const std::size_t size = last_word_size(text);
      pieces.add(text.substr(text.size() - size));
      text = strip(text.substr(0, text.size() - size), false, true);
    }
    if (!text.empty()) pieces.add(text);
  } else {
    if (separator->empty()) fail("rsplit needs a separator that is not empty");
    budget.scan(text.size() * std::min<std::size_t>(separator->size(), 1 << 20));
    for (; max_splits != 0; --max_splits) {
      const std::size_t found = text.rfind(*separator);
      if (found == std::string_view::npos) break;
      pieces.add(text.substr(found + separator->size()));
      text = text.substr(0, found);
    }
    pieces.add(text);
  }
  pieces.reverse();
  return pieces;
}

Pieces split_lines(std::string_view text, bool keep_ends, Budget& budget) {
  budget.scan(text.size());
  Pieces pieces(budget);
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at;
    const char32_t c = decode_code_point(text, at);
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    pieces.add(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) pieces.add(text.substr(begin));
  return pieces;
}

std::size_t find_text_right(std::string_view text, std::string_view part, Budget& budget) {
  budget.scan(text.size() * std::clamp<std::size_t>(part.size(), 1, 1 << 20));
  return text.rfind(part);
}

}  // namespace octavo::jinja
