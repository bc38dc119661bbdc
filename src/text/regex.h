// Regular expressions of tokenizers: PCRE2, compiled once, matched from many threads.
//
// Patterns are written in the dialect of Oniguruma, which Hugging Face's tokenizers use; they are translated first
// (text/regex_syntax.h). A search takes steps in proportion to the text at most; beyond that it is an error, never a
// wrong or missing piece. The machine stack in use is bounded.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo {

class Regex {
 public:
  static Result<Regex> compile(std::string_view pattern);

 private:
  friend class RegexSearch;
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

// The working memory of one thread's searches with one expression, which must outlive it.
class RegexSearch {
 public:
  struct Match {
    std::size_t begin, end;
  };

  explicit RegexSearch(const Regex& regex);
  RegexSearch(RegexSearch&&) noexcept;
  ~RegexSearch();

  // The first match in `valid` UTF-8 at or after `from`; look-behind sees what is before.
  Result<std::optional<Match>> find(std::string_view valid, std::size_t from);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace octavo
