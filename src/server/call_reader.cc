#include "server/call_reader.h"

#include <algorithm>
#include <utility>

namespace octavo {
namespace {

constexpr std::string_view kSpace = " \t\n\r";

// What is read again because it was no call, in all: more of it is content at once. Text that begins calls all the
// time and ends none would else be read as often as it begins one.
constexpr std::size_t kMaxReread = std::size_t{1} << 20;

}  // namespace

CallReader::CallReader(CallSyntax syntax, AnswerSink& sink)
    : syntax_(std::move(syntax)), sink_(sink), at_(syntax_.leading != 0 ? At::beginning : At::text) {
  openers_.assign(syntax_.openers.begin(), syntax_.openers.end());
}

void CallReader::push(std::string_view text) {
  held_ += text;
  bool goes_on = true;
  while (goes_on && from_ < held_.size()) {
    switch (at_) {
      case At::beginning:
        goes_on = read_beginning();
        break;
      case At::text:
        goes_on = read_text();
        break;
      case At::call:
        goes_on = read_call();
        break;
      case At::behind:
        goes_on = read_behind();
        break;
    }
  }
  held_.erase(0, from_);
  from_ = 0;
}

// Each of these takes what it can off the rest; true: there may be more to take.
bool CallReader::read_beginning() {
  const std::size_t first = rest().find_first_not_of(kSpace);
  if (first == std::string_view::npos) return false;
  if (rest()[first] == syntax_.leading)
    begin_call({}, first);
  else
    at_ = At::text;
  return true;
}

bool CallReader::read_text() {
  const FoundMarker found = find_marker(rest(), openers_);
  sink_.content(rest().substr(0, found.place));
  from_ += found.place;
  if (found.marker.empty()) return false;
  begin_call(found.marker, 0);
  return true;
}

// skip: white space before it, which is dropped with the call, and content without it.
void CallReader::begin_call(std::string_view opener, std::size_t skip) {
  parser_ = syntax_.begin(opener);
  opener_ = skip + opener.size();
  fed_ = opener_;
  given_ = false;
  at_ = At::call;
}

bool CallReader::read_call() {
  while (fed_ < rest().size()) {
    const CallParser::Verdict verdict = parser_->feed(rest()[fed_++]);
    if (verdict == CallParser::Verdict::more) continue;
    give_out_call();
    if (verdict == CallParser::Verdict::text && !given_) {
      give_up_call();
      return true;
    }
    from_ += verdict == CallParser::Verdict::text ? fed_ - 1 : fed_;
    end_call();
    at_ = At::behind;
    return true;
  }
  give_out_call();
  if (given_) {
    from_ += fed_;
    fed_ = 0;
  }
  return false;
}

void CallReader::give_out_call() {
  ParsedCall* call = parser_->call();
  if (call == nullptr) return;
  if (!std::exchange(given_, true)) sink_.begin_call(call->id, call->name);
  sink_.arguments(std::exchange(call->arguments, {}));
}

void CallReader::end_call() {
  sink_.end_call(parser_->call()->whole);
  closer_ = 0;
}

// The mark, or at least a letter, is content; what came behind it is looked at anew.
void CallReader::give_up_call() {
  std::size_t certain = std::max<std::size_t>(opener_, 1);
  if (reread_ + fed_ - opener_ > kMaxReread)
    certain = fed_;
  else
    reread_ += fed_ - opener_;
  sink_.content(rest().substr(0, certain));
  from_ += certain;
  at_ = At::text;
}

// After a call: closers and white space belong to it; another call may begin.
bool CallReader::read_behind() {
  const std::size_t first = behind_space();
  const std::string_view next = rest().substr(first);
  if (next.empty()) return false;
  if (next[0] == syntax_.leading && syntax_.leading != 0) {
    begin_call({}, first);
    return true;
  }
  bool begun = false;
  for (std::size_t i = closer_; i < syntax_.closers.size(); ++i) {
    const std::string_view closer = syntax_.closers[i];
    if (next.starts_with(closer)) {
      closer_ = i + 1;
      from_ += first + closer.size();
      return true;
    }
    begun = begun || closer.starts_with(next);
  }
  for (const std::string_view opener : openers_) {
    if (next.starts_with(opener)) {
      from_ += first;
      begin_call(opener, 0);
      return true;
    }
    begun = begun || opener.starts_with(next);
  }
  if (!begun) at_ = At::text;
  return !begun;
}

std::size_t CallReader::behind_space() const {
  const auto skipped = [&](char c) {
    return kSpace.find(c) != std::string_view::npos || (c != 0 && c == syntax_.between);
  };
  const std::string_view text = rest();
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), skipped) - text.begin());
}

// Whether the text can be the beginning of a closer, or nothing: the answer was cut behind its last call.
bool CallReader::ends_call(std::string_view text) const {
  if (text.empty()) return true;
  return std::any_of(syntax_.closers.begin() + static_cast<std::ptrdiff_t>(closer_), syntax_.closers.end(),
                     [&](const std::string& closer) { return closer.starts_with(text); });
}

void CallReader::finish() {
  if (at_ == At::call && given_) return end_call();
  if (at_ != At::behind || !ends_call(rest().substr(behind_space()))) sink_.content(held_);
  held_.clear();
}

}  // namespace octavo
