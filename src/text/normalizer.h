// What happens to text before it is split: normalisation forms, replacements, a prefix. The `normalizer` of
// tokenizer.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace octavo {

constexpr int kMaxSequenceDepth = 8;  // of sequences inside sequences, in every part of tokenizer.json

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

std::string replace_all(std::string_view text, std::string_view what, std::string_view with);

// The `pattern` of Replace and Split: {"String": ...} or {"Regex": ...}. A literal is not empty.
struct Pattern {
  std::string literal;
  std::optional<Regex> regex;
};
Result<Pattern> pattern_from_json(const nlohmann::json& owner, std::string_view owner_name);

}  // namespace octavo
