#include "server/tool_parsers/channel_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "server/tool_parsers/call_syntax.h"

namespace octavo {
namespace {

constexpr std::array<std::string_view, 7> kMarkers = {kStart, kChannel, kMessage, kConstrain, kEnd, kCallEnd, kReturn};
constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kWhiteSpace = " \t\r\n";

// Longer than any head: a model that writes no markers is heard all the same.
constexpr std::size_t kLongestHead = 512;

// What follows `key` in a head, up to a space or a marker; empty when it is not there.
std::string word_after(std::string_view head, std::string_view key) {
  const std::size_t place = head.find(key);
  if (place == std::string_view::npos) return {};
  const std::string_view rest = head.substr(place + key.size());
  return std::string(rest.substr(0, rest.find_first_of(" \n<")));
}

bool ends_message(std::string_view marker) { return marker == kEnd || marker == kCallEnd || marker == kReturn; }

}  // namespace

ChannelReader::ChannelReader(const AnswerPlan& plan, AnswerSink& sink)
    : sink_(sink),
      calls_(plan.calls == CallFormat::channels),
      reasons_(plan.reasoning == ReasoningFormat::channels),
      head_(plan.channel_head),
      prompts_(head_.size()) {
  if (head_.find(kMessage) != std::string::npos) begin_body();
}

void ChannelReader::push(std::string_view text) {
  held_ += text;
  std::size_t from = 0;
  while (true) {
    const std::string_view rest = std::string_view(held_).substr(from);
    const FoundMarker found = find_marker(rest, kMarkers);
    if (found.place > 0) read_text(rest.substr(0, found.place));
    from += found.place + found.marker.size();
    if (found.marker.empty()) break;
    read_marker(found.marker);
  }
  held_.erase(0, from);
}

void ChannelReader::read_marker(std::string_view marker) {
  if (ends_message(marker)) return end_message();
  if (marker == kStart) {
    end_message();
  } else if (marker == kMessage && in_head_) {
    begin_body();
  } else if (in_head_) {
    head_ += marker;
  } else if (marker == kChannel) {
    end_message();
    head_ = marker;
  } else {
    give(marker);
  }
}

void ChannelReader::read_text(std::string_view text) {
  if (!in_head_) return give(text);
  head_ += text;
  if (head_.size() <= kLongestHead) return;
  const std::string said = head_.substr(prompts_);
  begin_body();
  give(said);
}

void ChannelReader::begin_body() {
  const std::string channel = word_after(head_, kChannel);
  recipient_ = word_after(head_, "to=");
  in_head_ = begun_ = false;
  head_.clear();
  prompts_ = 0;
  if (calls_ && recipient_.size() > kFunctions.size() && recipient_.starts_with(kFunctions))
    kind_ = Kind::call;
  else
    kind_ = channel == "analysis" && reasons_ ? Kind::reasoning : Kind::content;
}

// A call's arguments are given out as they come, once they have begun as an object. Where they break off, and behind
// them, the message goes on as content.
void ChannelReader::read_call(std::string_view text) {
  std::size_t read = 0;
  if (!arguments_) {
    read = std::min(text.find_first_not_of(kWhiteSpace), text.size());
    body_ += text.substr(0, read);
    if (read == text.size()) return;
    if (text[read] != '{' || !trim(body_).empty()) {
      body_ += text.substr(read);
      return;
    }
    sink_.begin_call("", recipient_.substr(kFunctions.size()));
    arguments_.emplace();
  }
  const std::size_t from = read;
  auto verdict = JsonObjectScanner::Verdict::more;
  while (read < text.size() && verdict == JsonObjectScanner::Verdict::more) verdict = arguments_->feed(text[read++]);
  if (verdict == JsonObjectScanner::Verdict::invalid) --read;
  sink_.arguments(text.substr(from, read - from));
  if (verdict == JsonObjectScanner::Verdict::more) return;
  const bool whole = verdict == JsonObjectScanner::Verdict::complete;
  sink_.end_call(whole);
  arguments_.reset();
  kind_ = whole ? Kind::after_call : Kind::content;
  give(text.substr(read));
}

void ChannelReader::give(std::string_view text) {
  if (kind_ == Kind::call) return read_call(text);
  if (kind_ == Kind::after_call) {
    text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
    if (!text.empty()) kind_ = Kind::content;
  }
  if (text.empty()) return;
  const bool reasoning = kind_ == Kind::reasoning;
  bool& before = reasoning ? reasoning_ : content_;
  const bool apart = !begun_ && before;
  begun_ = before = true;
  if (reasoning) {
    if (apart) sink_.reasoning("\n");
    sink_.reasoning(text);
  } else {
    if (apart) sink_.content("\n");
    sink_.content(text);
  }
}

void ChannelReader::end_message() {
  if (in_head_) {
    // A head that leads to no message; the role alone says nothing.
    const std::string said = head_.substr(prompts_);
    head_.clear();
    prompts_ = 0;
    if (trim(said).empty() || trim(said) == "assistant") return;
    begin_body();
    kind_ = Kind::content;
    give(said);
  } else if (kind_ == Kind::call && arguments_) {
    sink_.end_call(false);
    arguments_.reset();
  } else if (kind_ == Kind::call) {
    const std::string body = std::exchange(body_, {});
    std::string arguments = call_arguments(body);
    if (arguments.empty()) {
      kind_ = Kind::content;
      give("to=" + recipient_ + " " + body);
    } else {
      sink_.begin_call("", recipient_.substr(kFunctions.size()));
      sink_.arguments(arguments);
      sink_.end_call(true);
    }
  }
  in_head_ = true;
}

void ChannelReader::finish() {
  if (!held_.empty()) read_text(std::exchange(held_, {}));
  end_message();
}

std::string begun_channel_head(std::string_view prompt) {
  const std::size_t start = prompt.rfind(kStart);
  if (start == std::string_view::npos) return {};
  std::string_view head = prompt.substr(start + std::string_view(kStart).size());
  for (const char* end : {kEnd, kCallEnd, kReturn})
    if (head.find(end) != std::string_view::npos) return {};
  const std::size_t message = head.find(kMessage);
  if (message != std::string_view::npos) head = head.substr(0, message + std::string_view(kMessage).size());
  return std::string(head);
}

}  // namespace octavo
