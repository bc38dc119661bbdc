// What happens to text before it is split: normalisation forms, replacements, a prefix. The `normalizer` of
// tokenizer.json.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace octavo {

constexpr int kMaxSequenceDepth = 8;   // of sequences inside sequences, in every part of tokenizer.json
constexpr std::size_t kMaxParts = 64;  // of one sequence with all that are inside it

// What a text of so many bytes may become while it is prepared: twelve times as much where compatible characters are
// taken apart, never so much by an honest replacement. A hostile file could double it again and again.
constexpr std::size_t grown_limit(std::size_t bytes) { return 1024 + 64 * bytes; }

class TextNormalizer {
 public:
  struct Form {
    UnicodeForm form;
  };
  struct Prepend {
    std::string text;
  };
  struct Replace {
    std::string literal;         // what is replaced, or
    std::optional<Regex> regex;  // what it must match
    std::string content;
  };

  TextNormalizer() = default;
  static Result<TextNormalizer> from_json(const nlohmann::json* normalizer);  // null: none

  void add(Form step);
  void add(Prepend step);
  void add(Replace step);

  bool empty() const { return steps_.empty(); }

  // `continues`: this text goes on where another ended, so nothing is put in front of it.
  Result<std::string> apply(std::string_view valid, bool continues) const;

  std::string description() const;  // "NFC"; empty when there is nothing to tell

 private:
  struct Step {
    std::optional<Form> form;
    std::optional<Prepend> prepend;
    std::optional<Replace> replace;
  };
  Status add_json(const nlohmann::json& normalizer, int depth);
  std::vector<Step> steps_;
};

// Refuses to make more than `limit` bytes.
Result<std::string> replace_all(std::string_view text, std::string_view what, std::string_view with, std::size_t limit);

// The `pattern` of Replace and Split: {"String": ...} or {"Regex": ...}. A literal is not empty.
struct Pattern {
  std::string literal;
  std::optional<Regex> regex;
};
Result<Pattern> pattern_from_json(const nlohmann::json& owner, std::string_view owner_name);

}  // namespace octavo
