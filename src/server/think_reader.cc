#include "server/think_reader.h"

#include <utility>

namespace octavo {
ThinkReader::ThinkReader(ThinkStart start, AnswerSink& sink, std::unique_ptr<AnswerStage> next)
    : sink_(sink),
      next_(std::move(next)),
      at_(start == ThinkStart::unknown ? At::start
          : start == ThinkStart::open  ? At::inside
                                       : At::after) {}

void ThinkReader::push(std::string_view text) {
  if (at_ == At::after) return next_->push(text);
  held_ += text;
  if (at_ == At::start && !read_start()) return;
  if (at_ == At::inside && !read_inside()) return;
  if (at_ == At::gap) {
    held_.erase(0, std::min(held_.find_first_not_of('\n'), held_.size()));
    if (held_.empty()) return;
    at_ = At::after;
  }
  next_->push(std::exchange(held_, {}));
}

// Whether it is known how the answer begins.
bool ThinkReader::read_start() {
  const std::size_t first = held_.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return false;
  const std::string_view rest = std::string_view(held_).substr(first);
  if (rest.starts_with(kThinkBegin)) {
    held_.erase(0, first + kThinkBegin.size());
    at_ = At::inside;
    return true;
  }
  if (kThinkBegin.starts_with(rest)) return false;
  at_ = At::after;
  return true;
}

// Whether the end of the reasoning is there.
bool ThinkReader::read_inside() {
  if (!begun_) held_.erase(0, std::min(held_.find_first_not_of('\n'), held_.size()));
  const FoundMarker end = find_marker(held_, {&kThinkEnd, 1});
  std::string_view known = std::string_view(held_).substr(0, end.place);
  known = known.substr(0, known.find_last_not_of('\n') + 1);
  reason(known);
  if (end.marker.empty()) {
    held_.erase(0, known.size());
    return false;
  }
  held_.erase(0, end.place + kThinkEnd.size());
  at_ = At::gap;
  return true;
}

void ThinkReader::reason(std::string_view text) {
  begun_ = begun_ || !text.empty();
  sink_.reasoning(text);
}

void ThinkReader::finish() {
  if (at_ == At::inside)
    reason(held_);
  else if (at_ == At::start)
    next_->push(held_);
  held_.clear();
  next_->finish();
}

}  // namespace octavo
