#include "text/pre_tokenizer.h"

#include <utility>

#include "text/normalizer.h"
#include "text/unicode.h"

namespace octavo {
namespace {

struct Range {
  std::size_t begin, end;
};

// Turns matches and gaps, which come in order and cover the text, into pieces.
template <class Emit>
class Joiner {
 public:
  Joiner(const PreTokenizer::Step& step, Emit emit) : step_(step), emit_(std::move(emit)) {}

  Status add(Range range, bool match) {
    if (range.begin == range.end) return {};
    match = match != step_.invert;
    switch (step_.behavior) {
      case SplitBehavior::isolated:
        return emit_(range);
      case SplitBehavior::removed:
        return match ? Status() : emit_(range);
      case SplitBehavior::contiguous:
        return hold(range, match, match == held_match_);
      case SplitBehavior::merged_with_previous:
        return hold(range, match, match && !held_match_);
      case SplitBehavior::merged_with_next:
        return hold(range, match, !match && held_match_);
    }
    return {};
  }

  Status finish() { return has_held_ ? emit_(held_) : Status(); }

 private:
  Status hold(Range range, bool match, bool joins) {
    if (has_held_ && joins) {
      held_.end = range.end;
      held_match_ = match;
      return {};
    }
    if (has_held_) OCTAVO_TRY(emit_(held_));
    held_ = range;
    held_match_ = match;
    has_held_ = true;
    return {};
  }

  const PreTokenizer::Step& step_;
  Emit emit_;
  Range held_{0, 0};
  bool has_held_ = false;
  bool held_match_ = false;
};

// The next match of a step in `text` at or after `at`.
Result<std::optional<RegexSearch::Match>> find_match(const PreTokenizer::Step& step, std::optional<RegexSearch>& search,
                                                     std::string_view text, std::size_t at) {
  using Found = std::optional<RegexSearch::Match>;
  if (search) return search->find(text, at);
  if (step.kind == PreTokenizer::Step::Kind::digits) {
    for (; at < text.size(); at += utf8_length(text[at]))
      if (is_number(decode_utf8(text, at))) return Found({at, at + utf8_length(text[at])});
    return Found();
  }
  const std::string& literal = step.kind == PreTokenizer::Step::Kind::metaspace ? step.replacement : step.literal;
  const std::size_t found = text.find(literal, at);
  return found == std::string_view::npos ? Found() : Found({found, found + literal.size()});
}

}  // namespace

PreTokenizer::Run::Run(const PreTokenizer& pre_tokenizer) : owner_(pre_tokenizer) {
  for (const Step& step : owner_.steps_) {
    searches_.emplace_back();
    if (step.regex) searches_.back().emplace(*step.regex);
  }
}

Status PreTokenizer::Run::split(std::string_view valid, Place place, const PieceFn& piece) {
  room_ += grown_limit(valid.size());
  return step(0, valid, place, piece);
}

// The text with its spaces replaced as a step says, and this in front unless it begins so.
Result<std::string> PreTokenizer::Run::grown(std::string_view text, std::string_view prefix, const Step* spaces) {
  std::string changed(text);
  if (spaces != nullptr) {
    OCTAVO_TRY(changed, replace_all(text, " ", spaces->replacement, text.size() + room_));
  }
  if (!changed.starts_with(prefix)) changed.insert(0, prefix);
  const std::size_t added = changed.size() - text.size();
  if (added > room_)
    return Error("a text grows to far more than its size by the prefixes of the tokenizer's pre-tokenizers");
  room_ -= added;
  return changed;
}

Status PreTokenizer::Run::step(std::size_t index, std::string_view text, Place place, const PieceFn& piece) {
  if (index == owner_.steps_.size()) return piece(text), Status();
  const Step& step = owner_.steps_[index];
  const bool wants_prefix =
      !place.continues && (step.prefix == PrefixRule::always || (step.prefix == PrefixRule::first && place.first));
  if (step.kind == Step::Kind::metaspace) {
    OCTAVO_TRY(const std::string changed, grown(text, wants_prefix ? step.replacement : "", &step));
    if (!step.split) return this->step(index + 1, changed, place, piece);
    return split_matches(index, changed, place, piece);
  }
  if (step.kind == Step::Kind::byte_level) {
    if (wants_prefix && !text.starts_with(' ')) {
      OCTAVO_TRY(const std::string changed, grown(text, " ", nullptr));
      if (!step.regex) return this->step(index + 1, changed, place, piece);
      return split_matches(index, changed, place, piece);
    }
    if (!step.regex) return this->step(index + 1, text, place, piece);
  }
  return split_matches(index, text, place, piece);
}

Status PreTokenizer::Run::split_matches(std::size_t index, std::string_view text, Place place, const PieceFn& piece) {
  const Step& step = owner_.steps_[index];
  Joiner joiner(step, [&](Range range) {
    const Place inner{place.first && range.begin == 0, place.continues && range.begin == 0};
    return this->step(index + 1, text.substr(range.begin, range.end - range.begin), inner, piece);
  });
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    OCTAVO_TRY(const auto match, find_match(step, searches_[index], text, at));
    if (!match) break;
    OCTAVO_TRY(joiner.add({done, match->begin}, false));
    OCTAVO_TRY(joiner.add({match->begin, match->end}, true));
    done = match->end;
    at = match->end;
    if (match->end == match->begin && at < text.size()) at += utf8_length(text[at]);
  }
  OCTAVO_TRY(joiner.add({done, text.size()}, false));
  return joiner.finish();
}

}  // namespace octavo
