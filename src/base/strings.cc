#include "base/strings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace octavo {

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> pieces;
  for (std::size_t begin = text.find_first_not_of(separators); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(separators, end);
  }
  return pieces;
}

std::string join(std::span<const std::string> pieces, std::string_view separator) {
  std::string joined;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) joined += separator;
    joined += pieces[i];
  }
  return joined;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string lower(std::string_view ascii) {
  std::string result(ascii);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

void append_visible(std::string& text, char c) {
  if (c == '\n') {
    text += "\\n";
  } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
    char code[8];
    std::snprintf(code, sizeof code, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    text += code;
  } else {
    text += c;
  }
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 300;  // a damaged file's "name" may be the rest of the file
  std::string result = "\"";
  for (const char c : text.substr(0, kShown)) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else {
      append_visible(result, c);
    }
  }
  if (text.size() > kShown) result += "...";
  return result + "\"";
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

Result<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return Error(in_quotes(text) + " is not a whole number");
  return value;
}

Result<double> parse_double(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return Error(in_quotes(text) + " is not a number");
  return value;
}

Result<std::int64_t> parse_size(std::string_view text) {
  const Error bad(in_quotes(text) + " is not a size: write a count such as 8192, 8k (8,000), 8K (8,192) or 2G");
  if (text.empty() || text[0] < '0' || text[0] > '9') return bad;
  if (const Result<std::int64_t> whole = parse_int(text)) return *whole;  // exact beyond what a double holds
  constexpr std::string_view kDecimal = "kmgt";
  constexpr std::string_view kBinary = "KMGT";
  double scale = 1;
  std::string_view digits = text;
  if (const std::size_t power = kDecimal.find(text.back()); power != std::string_view::npos)
    scale = std::pow(1000.0, static_cast<double>(power + 1));
  if (const std::size_t power = kBinary.find(text.back()); power != std::string_view::npos)
    scale = std::pow(1024.0, static_cast<double>(power + 1));
  if (scale != 1) digits.remove_suffix(1);
  if (digits.find_first_not_of("0123456789.") != std::string_view::npos) return bad;
  const Result<double> value = parse_double(digits);
  if (!value || *value * scale > 0x1p62 || *value * scale != std::floor(*value * scale)) return bad;
  return static_cast<std::int64_t>(*value * scale);
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t replaced = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

std::size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    const std::size_t length = lead < 0x80                    ? 1
                               : lead >= 0xC2 && lead <= 0xDF ? 2
                               : lead >= 0xE0 && lead <= 0xEF ? 3
                               : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                              : 0;
    if (length == 0) return i;
    for (std::size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    if ((lead == 0xE0 && byte(i + 1) < 0xA0) || (lead == 0xED && byte(i + 1) > 0x9F) ||
        (lead == 0xF0 && byte(i + 1) < 0x90) || (lead == 0xF4 && byte(i + 1) > 0x8F))
      return i;
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace octavo
