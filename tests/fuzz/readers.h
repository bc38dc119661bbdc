// What targets for readers of files share: the input in memory of exactly its size, in parts if it has several, and
// what every error promises.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tests/fuzz/require.h"

namespace octavo {

// A copy of the input that ends where it ends, so that a sanitizer sees a read beyond it.
inline std::shared_ptr<const std::vector<std::byte>> exact_copy(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  return std::make_shared<const std::vector<std::byte>>(bytes, bytes + size);
}

// An input of several files or texts holds them with a NUL byte between each two; those that are not there are empty.
inline std::vector<std::string> split_input(const std::uint8_t* data, std::size_t size, std::size_t count) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> parts;
  while (parts.size() + 1 < count && rest.find('\0') != std::string_view::npos) {
    parts.emplace_back(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(parts.back().size() + 1);
  }
  parts.emplace_back(rest);
  parts.resize(count);
  return parts;
}

// One sentence that fits a person's screen, on one line that a terminal shows as it is.
inline void require_sentence(const Error& error) {
  const std::string& text = error.message();
  require(!text.empty() && text.size() <= 2000, "an error is a sentence of some length", text);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  require(std::none_of(text.begin(), text.end(), is_control), "an error stays on its line", text);
}

template <class T>
bool succeeds(const Result<T>& result) {
  if (!result) require_sentence(result.error());
  return result.has_value();
}

}  // namespace octavo
