// Small text tools that every floor needs. All of them take and give UTF-8 and know nothing of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo {

std::vector<std::string_view> split(std::string_view text, std::string_view separators);  // empty pieces are left out
std::string join(std::span<const std::string> pieces, std::string_view separator);
std::string_view trim(std::string_view text);
std::string lower(std::string_view ascii);

void append_visible(std::string& text, char c);  // a control character as its escape, so that it stays on the line

// "a \"b\"\n": quotes and control characters escaped, so that any bytes fit on one line of a message. Cut when long.
std::string in_quotes(std::string_view text);

// 1536 -> "1.5 KiB"; for people only.
std::string human_bytes(std::uint64_t bytes);

// A count with an optional suffix, as vLLM reads it: k, m, g, t are powers of 1000 and may follow a fraction ("25.6k"),
// K, M, G, T are powers of 1024 ("8K" = 8,192). Refuses signs, spaces, garbage and results above 2^62.
Result<std::int64_t> parse_size(std::string_view text);
Result<std::int64_t> parse_int(std::string_view text);  // an optional sign and digits, nothing else
Result<double> parse_double(std::string_view text);     // finite, nothing after it

// The candidate closest to `name` by edit distance, if it is close enough to be a typing error.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

// Offset of the first byte that is not valid UTF-8 (overlong forms and surrogates are not valid), or npos.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace octavo
