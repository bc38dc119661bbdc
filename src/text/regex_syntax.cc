#include "text/regex_syntax.h"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace octavo {
namespace {

// What a shorthand holds, written so that it can stand inside a class.
struct Shorthand {
  char letter;
  std::string_view inside, inside_negated;
};

// White space is Unicode's property; PCRE2's \s has U+180E besides. Words have marks, all connecting punctuation and Latin-1's ² ¼ etc.;
// what is no word cannot be written inside a class.
constexpr std::array<Shorthand, 3> kShorthands = {{
    {'s', R"(\t-\r \x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})",
     R"(\x00-\x08\x0E-\x1F!-\x84\x86-\x9F\xA1-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})"},
    {'w', R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\xB2\xB3\xB9\xBC-\xBE)", ""},
    {'h', "0-9A-Fa-f", R"(\x00-/:-@G-`g-\x{10FFFF})"},
}};

// The general categories, two letters each; a class of whole categories can be turned inside out with them.
constexpr std::string_view kCategories = "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      if (pattern_[at_] == '\\') {
        OCTAVO_TRY(const std::string text, escape(false));
        out_ += text;
      } else if (pattern_[at_] == '[') {
        OCTAVO_TRY(const std::string text, whole_class());
        out_ += text;
      } else {
        out_ += pattern_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  Error refused(std::string_view what) const {
    return Error(
        "the regular expression " + in_quotes(pattern_) + " uses " + std::string(what) + ", which is not supported",
        ErrorKind::unsupported);
  }

  Result<std::string> escape(bool in_class) {
    if (at_ + 1 == pattern_.size()) return Error("the regular expression " + in_quotes(pattern_) + " ends in a backslash");
    const char letter = pattern_[at_ + 1];
    for (const Shorthand& s : kShorthands) {
      const bool negated = letter == s.letter - 'a' + 'A';
      if (letter != s.letter && !negated) continue;
      at_ += 2;
      if (in_class && negated && s.inside_negated.empty()) return refused("\\W in a class");
      if (in_class) return std::string(negated ? s.inside_negated : s.inside);
      return (negated ? "[^" : "[") + std::string(s.inside) + "]";
    }
    if (letter == 'p' || letter == 'P') return property();
    at_ += 2;
    return std::string{'\\', letter};
  }

  // \p{Name}, \p{^Name}. General categories stay; other names are scripts, which PCRE2 would read as script extensions.
  Result<std::string> property() {
    const std::size_t close = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || close == std::string_view::npos)
      return refused("\\p without a name in braces");
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    const char letter = pattern_[at_ + 1];
    at_ = close + 1;
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const bool category = name.size() <= 2 || name == "Any";
    return std::string{'\\', letter, '{'} + (negated ? "^" : "") + (category ? "" : "sc:") + std::string(name) + "}";
  }

  // The members of a class up to its ] or &&, which is left to the caller.
  Result<std::string> members() {
    std::string out;
    bool first = true;
    for (; at_ < pattern_.size(); first = false) {
      const std::string_view rest = pattern_.substr(at_);
      if (rest[0] == ']' && !first) return out;
      if (rest.starts_with("&&")) return out;
      if (rest[0] == '\\') {
        OCTAVO_TRY(const std::string text, escape(true));
        out += text;
      } else if (rest.starts_with("[:")) {
        return refused("a POSIX class");
      } else if (rest[0] == '[') {
        return refused("a class inside a class");
      } else {
        if (rest[0] == ']') out += '\\';
        out += rest[0];
        ++at_;
      }
    }
    return Error("the regular expression " + in_quotes(pattern_) + " has a class without an end");
  }

  Result<std::string> whole_class() {
    const std::size_t start = at_++;
    const bool negated = at_ < pattern_.size() && pattern_[at_] == '^';
    if (negated) ++at_;
    OCTAVO_TRY(std::string inside, members());
    if (pattern_[at_] == ']') {
      ++at_;
      return (negated ? "[^" : "[") + inside + "]";
    }
    // [A&&[^B]]: everything that is neither outside A nor in B. Needs A's complement, so A must be whole categories.
    const auto outside = complement(inside);
    if (negated || !outside || !pattern_.substr(at_).starts_with("&&[^"))
      return refused("the class " + in_quotes(pattern_.substr(start, 40)));
    at_ += 4;
    OCTAVO_TRY(std::string removed, members());
    if (!pattern_.substr(at_).starts_with("]]")) return refused("the class " + in_quotes(pattern_.substr(start, 40)));
    at_ += 2;
    return "[^" + *outside + removed + "]";
  }

  // The categories that are not in a class of \p{..} members only.
  static std::optional<std::string> complement(std::string_view inside) {
    std::string named;
    while (!inside.empty()) {
      const std::size_t close = inside.find('}');
      if (!inside.starts_with("\\p{") || close == std::string_view::npos || close > 5 || inside[3] == '^') return {};
      named += std::string(inside.substr(3, close - 3)) + ",";
      inside.remove_prefix(close + 1);
    }
    std::string out;
    for (std::size_t i = 0; i < kCategories.size(); i += 2) {
      const std::string two(kCategories.substr(i, 2));
      const bool present = ("," + named).find("," + two + ",") != std::string::npos ||
                           ("," + named).find("," + two.substr(0, 1) + ",") != std::string::npos;
      if (!present) out += "\\p{" + two + "}";
    }
    return out;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

Result<std::string> translate_regex(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace octavo
