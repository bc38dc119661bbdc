// Reading the `pre_tokenizer` of tokenizer.json; and building one from plain expressions.
#include <array>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/pre_tokenizers.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxSteps = 64;  // each is a level of the call stack
using Step = PreTokenizer::Step;

Result<Step> read_split(const Json& json) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kBehaviors = {{
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  }};
  OCTAVO_TRY(Pattern pattern, pattern_from_json(json, "pre-tokenizer Split"));
  OCTAVO_TRY(const std::string behavior, get_string(json, "behavior").in("pre-tokenizer Split"));
  OCTAVO_TRY(const auto invert, find_bool(json, "invert"));
  Step step;
  step.literal = std::move(pattern.literal);
  step.regex = std::move(pattern.regex);
  step.invert = invert.value_or(false);
  for (const auto& [name, value] : kBehaviors) {
    if (behavior != name) continue;
    step.behavior = value;
    return step;
  }
  return Error("pre-tokenizer Split has the unknown behavior " + in_quotes(behavior));
}

Result<Step> read_byte_level(const Json& json) {
  OCTAVO_TRY(const auto prefix, find_bool(json, "add_prefix_space"));
  OCTAVO_TRY(const auto use_regex, find_bool(json, "use_regex"));
  Step step;
  step.kind = Step::Kind::byte_level;
  step.prefix = prefix.value_or(true) ? PrefixRule::always : PrefixRule::never;
  if (use_regex.value_or(true)) {
    OCTAVO_TRY(step.regex, Regex::compile(kByteLevelRegex));
  }
  return step;
}

Result<Step> read_metaspace(const Json& json) {
  Step step;
  step.kind = Step::Kind::metaspace;
  step.behavior = SplitBehavior::merged_with_next;
  OCTAVO_TRY(step.replacement, get_string(json, "replacement").in("pre-tokenizer Metaspace"));
  if (step.replacement.empty()) return Error("pre-tokenizer Metaspace has an empty replacement");
  OCTAVO_TRY(const auto split, find_bool(json, "split"));
  OCTAVO_TRY(const auto add_prefix, find_bool(json, "add_prefix_space"));
  OCTAVO_TRY(const auto scheme, find_string(json, "prepend_scheme"));
  step.split = split.value_or(true);
  step.prefix = add_prefix.value_or(true) ? PrefixRule::always : PrefixRule::never;
  if (!scheme) return step;
  if (*scheme != "always" && *scheme != "first" && *scheme != "never")
    return Error("pre-tokenizer Metaspace has the unknown prepend_scheme " + in_quotes(*scheme));
  step.prefix = *scheme == "always" ? PrefixRule::always : *scheme == "first" ? PrefixRule::first : PrefixRule::never;
  return step;
}

Result<Step> read_digits(const Json& json) {
  OCTAVO_TRY(const auto individual, find_bool(json, "individual_digits"));
  Step step;
  step.kind = Step::Kind::digits;
  step.behavior = individual.value_or(false) ? SplitBehavior::isolated : SplitBehavior::contiguous;
  return step;
}

}  // namespace

Result<PreTokenizer> PreTokenizer::from_json(const Json* pre_tokenizer) {
  PreTokenizer result;
  if (pre_tokenizer != nullptr) OCTAVO_TRY(result.add_json(*pre_tokenizer, 0));
  return result;
}

Status PreTokenizer::add_json(const Json& json, int depth) {
  OCTAVO_TRY(const std::string type, get_string(json, "type").in("pre_tokenizer"));
  if (type == "Sequence") {
    const Json* parts = find_member(json, "pretokenizers");
    if (parts == nullptr || !parts->is_array() || depth == kMaxSequenceDepth)
      return Error("pre-tokenizer Sequence has no usable list of pretokenizers");
    for (const Json& part : *parts) OCTAVO_TRY(add_json(part, depth + 1));
    return {};
  }
  if (steps_.size() == kMaxSteps)
    return Error("the pre-tokenizer has more than " + std::to_string(kMaxSteps) + " steps");
  if (byte_level_)
    return Error("the pre-tokenizer " + in_quotes(type) + " stands behind ByteLevel, which is not supported",
                 ErrorKind::unsupported);
  if (type == "Split") {
    OCTAVO_TRY(Step step, read_split(json));
    steps_.push_back(std::move(step));
  } else if (type == "ByteLevel") {
    OCTAVO_TRY(Step step, read_byte_level(json));
    steps_.push_back(std::move(step));
    byte_level_ = true;
  } else if (type == "Metaspace") {
    OCTAVO_TRY(Step step, read_metaspace(json));
    steps_.push_back(std::move(step));
  } else if (type == "Digits") {
    OCTAVO_TRY(Step step, read_digits(json));
    steps_.push_back(std::move(step));
  } else {
    return Error("the pre-tokenizer " + in_quotes(type) +
                     " is not supported (Split, ByteLevel, Digits, Metaspace, Sequence are)",
                 ErrorKind::unsupported);
  }
  return {};
}

Result<PreTokenizer> PreTokenizer::from_regexes(const std::vector<std::string_view>& patterns) {
  PreTokenizer result;
  for (const std::string_view pattern : patterns) {
    Step step;
    OCTAVO_TRY(step.regex, Regex::compile(pattern));
    result.steps_.push_back(std::move(step));
  }
  result.byte_level_ = true;
  return result;
}

}  // namespace octavo
