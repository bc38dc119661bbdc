// How text falls into pieces before it is encoded: the `pre_tokenizer` of tokenizer.json. Merges never cross a piece.
//
// The pieces are handed on one by one, so that a long text needs no list of them.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/regex.h"

namespace octavo {

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
enum class PrefixRule { always, first, never };  // where a space is put in front: every text, the first one, nowhere

class PreTokenizer {
 public:
  using PieceFn = std::function<void(std::string_view)>;

  // One step; each works on the pieces that the step before it made.
  struct Step {
    enum class Kind { pattern, digits, byte_level, metaspace } kind = Kind::pattern;
    std::string literal;         // pattern: this text, or
    std::optional<Regex> regex;  // pattern and byte_level: what this matches
    SplitBehavior behavior = SplitBehavior::isolated;
    bool invert = false;                    // pattern: the pieces are the matches, what lies between separates them
    PrefixRule prefix = PrefixRule::never;  // byte_level, metaspace
    std::string replacement;                // metaspace: what a space becomes
    bool split = true;                      // metaspace: every replacement begins a piece
  };

  // Where a text stands.
  struct Place {
    bool first = true;       // nothing before it
    bool continues = false;  // it goes on where another ended: it gets no prefix
  };

  PreTokenizer() = default;
  static Result<PreTokenizer> from_json(const nlohmann::json* pre_tokenizer);  // null: none
  // Splits one after the other, matches and what is between them alike; then bytes.
  static Result<PreTokenizer> from_regexes(const std::vector<std::string_view>& patterns);

  bool byte_level() const { return byte_level_; }

  // The working memory of one thread.
  class Run {
   public:
    explicit Run(const PreTokenizer& pre_tokenizer);
    Status split(std::string_view valid, Place place, const PieceFn& piece);

   private:
    Status step(std::size_t index, std::string_view text, Place place, const PieceFn& piece);
    Status split_matches(std::size_t index, std::string_view text, Place place, const PieceFn& piece);
    Result<std::string> grown(std::string_view text, std::string_view prefix, const Step* spaces);
    const PreTokenizer& owner_;
    std::vector<std::optional<RegexSearch>> searches_;
    std::size_t room_ = 0;  // bytes that prefixes and replacements may still add
  };

 private:
  Status add_json(const nlohmann::json& pre_tokenizer, int depth);
  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace octavo
