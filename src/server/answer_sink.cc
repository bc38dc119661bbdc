#include "server/answer_sink.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "server/http_message.h"

namespace octavo {
namespace {

constexpr std::string_view kWhite = " \t\n\r";

StopStrings make_stops(const SinkRules& rules) {
  auto stops = StopStrings::create(rules.stops, rules.include_stop);
  check(stops.has_value(), "stop strings were checked when the request was read");
  return *std::move(stops);
}

}  // namespace

AnswerSink::AnswerSink(SinkRules rules) : rules_(std::move(rules)), stops_(make_stops(rules_)) {}

void AnswerSink::content(std::string_view text) {
  if (end_) return;
  if (!looks_) return show(text);
  show(stops_.push(text));
  if (const auto& match = stops_.match()) {
    delta_.content += std::exchange(space_, {});
    end_ = AnswerEnd{rules_.stops[static_cast<std::size_t>(match->index)]};
  }
}

void AnswerSink::show(std::string_view text) {
  const std::size_t last = rules_.has_calls ? text.find_last_not_of(kWhite) : text.size() - 1;
  if (text.empty()) return;
  if (last == std::string_view::npos) {
    space_ += text;
    return;
  }
  ends_with_call_ = false;
  delta_.content += std::exchange(space_, std::string(text.substr(last + 1)));
  delta_.content += text.substr(0, last + 1);
}

void AnswerSink::reasoning(std::string_view text) {
  if (end_ || text.empty()) return;
  ends_with_call_ = false;
  if (rules_.reasoning) delta_.reasoning += text;
}

// What was held back as the possible beginning of a stop string has turned out not to be one.
void AnswerSink::flush_stops() {
  show(stops_.finish());
  stops_ = make_stops(rules_);
}

void AnswerSink::begin_call(std::string id, std::string name) {
  if (end_) return;
  flush_stops();
  space_.clear();
  ends_with_call_ = false;
  if (id.empty()) id = "call_" + random_id().substr(0, 24);
  delta_.tool_calls.push_back({num_calls_++, std::move(id), std::move(name), {}});
}

// Its part of what has come since the last take().
ToolCallDelta& AnswerSink::last_call() {
  if (delta_.tool_calls.empty() || delta_.tool_calls.back().index != num_calls_ - 1)
    delta_.tool_calls.push_back({num_calls_ - 1, {}, {}, {}});
  return delta_.tool_calls.back();
}

void AnswerSink::arguments(std::string_view text) {
  if (!end_ && !text.empty()) last_call().arguments += text;
}

void AnswerSink::end_call(bool whole) {
  if (end_) return;
  ends_with_call_ = whole;
  if (!whole) last_call().broken = true;
  if (rules_.single_call) end_ = AnswerEnd{};
}

void AnswerSink::finish() {
  if (end_) return;
  flush_stops();
  delta_.content += std::exchange(space_, {});
}

void AnswerSink::look_for_stops(bool look) {
  if (look == looks_) return;
  if (!look) flush_stops();
  looks_ = look;
}

AnswerDelta AnswerSink::take() { return std::exchange(delta_, {}); }

FoundMarker find_marker(std::string_view text, std::span<const std::string_view> markers) {
  for (std::size_t place = 0; place < text.size(); ++place) {
    const std::string_view rest = text.substr(place);
    for (const std::string_view marker : markers) {
      if (rest[0] != marker[0]) continue;
      if (rest.starts_with(marker)) return {place, marker};
      if (marker.starts_with(rest)) return {place, {}};
    }
  }
  return {text.size(), {}};
}

}  // namespace octavo
