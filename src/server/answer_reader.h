// AnswerReader: the model's text -> what the client sees of it: content, reasoning, calls of tools. One for each
// answer; text comes in pieces, and however it is cut the joined deltas are the same, so a stream and a whole answer
// agree.
//
// A call is given out once its name is known and its arguments have begun, and then as it comes: the arguments' letters
// joined are an object of JSON, or the call says that it is broken. What only looks like a call until then is content,
// to the last letter. Stop strings count in content alone: not in reasoning, not inside a call.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

struct AnswerPlan;

struct ToolCallDelta {
  int index = 0;          // which call: 0, 1, ...
  std::string id;         // with the first delta of a call,
  std::string name;       // as its name
  std::string arguments;  // pieces of JSON
  bool broken = false;    // the arguments end before their JSON does: nothing more of this call will come
};

struct AnswerDelta {
  std::string content;
  std::string reasoning;
  std::vector<ToolCallDelta> tool_calls;

  bool empty() const { return content.empty() && reasoning.empty() && tool_calls.empty(); }
  bool broken_call() const;
  void append(const AnswerDelta& next);  // calls of one index become one
};

// The answer is over, whatever else the model would write.
struct AnswerEnd {
  std::string stop;  // the stop string; empty: the one call that was asked for is there
};

class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual AnswerDelta push(std::string_view text) = 0;
  virtual AnswerDelta finish() = 0;                                      // what was held back
  virtual void look_for_stops(bool) {}                                   // from the next text on; at first they count
  virtual std::optional<AnswerEnd> end() const { return std::nullopt; }  // after it everything is empty
  virtual bool ends_with_call() const { return false; }                  // a whole one, and nothing behind it
};

// Everything is content, and stop strings are another's.
std::unique_ptr<AnswerReader> make_plain_reader();

// What the plan says; never null.
std::unique_ptr<AnswerReader> make_answer_reader(const AnswerPlan& plan, std::vector<std::string> stops,
                                                 bool include_stop);

}  // namespace octavo
