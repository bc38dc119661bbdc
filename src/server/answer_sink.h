// AnswerSink: where the readers of an answer put what they found, in its order. Looks for stop strings in content,
// keeps back the white space before a call (it belongs to the format), numbers the calls, and ends the answer: at a
// stop string, or at the first call where one is all that was asked for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer_reader.h"
#include "text/stop_strings.h"

namespace octavo {

struct SinkRules {
  std::vector<std::string> stops;
  bool include_stop = false;
  bool has_calls = false;    // white space at the end of content waits for what comes
  bool single_call = false;  // one call ends the answer
  bool reasoning = true;     // else it is dropped
};

class AnswerSink {
 public:
  explicit AnswerSink(SinkRules rules);

  void content(std::string_view text);
  void reasoning(std::string_view text);
  // A call. id: as the model gave it, or empty: one is made up. whole: the arguments are an object of JSON.
  void begin_call(std::string id, std::string name);
  void arguments(std::string_view text);
  void end_call(bool whole);
  void finish();

  void look_for_stops(bool look);
  const std::optional<AnswerEnd>& end() const { return end_; }
  bool ends_with_call() const { return ends_with_call_; }
  AnswerDelta take();  // what has come since

 private:
  void show(std::string_view text);
  void flush_stops();
  ToolCallDelta& last_call();

  SinkRules rules_;
  StopStrings stops_;
  bool looks_ = true;
  std::string space_;            // held back
  int num_calls_ = 0;            // the last one may be under way
  bool ends_with_call_ = false;  // a whole one is the last thing that came, white space apart
  std::optional<AnswerEnd> end_;
  AnswerDelta delta_;
};

// A stage of reading: text goes in, findings into the sink or the next stage.
class AnswerStage {
 public:
  virtual ~AnswerStage() = default;
  virtual void push(std::string_view text) = 0;
  virtual void finish() = 0;
};

// The first marker in a text, or where the text's end may have begun one, or the end. Takes time linear in the text.
struct FoundMarker {
  std::size_t place = 0;
  std::string_view marker = {};  // empty: no whole one
};
FoundMarker find_marker(std::string_view text, std::span<const std::string_view> markers);

}  // namespace octavo
