// AnswerReader: the model's text -> what the client sees of it: content, reasoning, calls of tools. One for each
// answer; text comes in pieces, and however it is cut the joined deltas are the same, so a stream and a whole answer
// agree.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace octavo {

struct ToolCallDelta {
  int index = 0;          // which call: 0, 1, ...
  std::string id;         // with the first delta of a call,
  std::string name;       // as its name
  std::string arguments;  // pieces of JSON
};

struct AnswerDelta {
  std::string content;
  std::string reasoning;
  std::vector<ToolCallDelta> tool_calls;

  bool empty() const { return content.empty() && reasoning.empty() && tool_calls.empty(); }
  void append(const AnswerDelta& next);  // calls of one index become one
};

class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual AnswerDelta push(std::string_view text) = 0;
  virtual AnswerDelta finish() = 0;  // what was held back
};

// Everything is content.
std::unique_ptr<AnswerReader> make_plain_reader();

}  // namespace octavo
