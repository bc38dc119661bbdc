// CallSyntax: the marks by which calls of tools are found in a model's text, and what reads one call. A parser gets the
// letters after the mark that began the call, one by one, and says with the first letter that decides it whether they
// are a call; what is given out of the arguments before their end is never taken back.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/tool_parsers/answer_formats.h"

namespace octavo {

constexpr const char* kToolCall = "<tool_call>";
constexpr const char* kFunction = "<function=";
constexpr const char* kCallBegin = "<｜tool▁call▁begin｜>";
constexpr const char* kFence = "```json";
constexpr const char* kNumberedBegin = "<|tool_call_begin|>";
constexpr const char* kStart = "<|start|>";
constexpr const char* kChannel = "<|channel|>";
constexpr const char* kMessage = "<|message|>";
constexpr const char* kConstrain = "<|constrain|>";
constexpr const char* kEnd = "<|end|>";
constexpr const char* kCallEnd = "<|call|>";
constexpr const char* kReturn = "<|return|>";

struct ParsedCall {
  std::string id;  // empty: the model gives none
  std::string name;
  std::string arguments;  // what has come of them and was not taken
  bool whole = false;     // nothing is missing of the arguments, an object of JSON
};

class CallParser {
 public:
  enum class Verdict { more, call, text };

  virtual ~CallParser() = default;
  // text: this letter is none of a call's.
  virtual Verdict feed(char c) = 0;
  // Null until name and beginning of the arguments are known; then it is a call, though it may break off, and whoever
  // gives out its arguments empties them here. Between characters only.
  virtual ParsedCall* call() = 0;
};

struct CallSyntax {
  std::vector<std::string> openers;  // each begins a call wherever it stands
  char leading = 0;                  // begins a call at the beginning of the answer, and after another call; 0: none
  std::vector<std::string> closers;  // may follow a call, in this order
  char between = 0;                  // may stand between calls, beside white space
  std::vector<std::string> inner;    // other markers
  std::function<std::unique_ptr<CallParser>(std::string_view opener)> begin;

  std::vector<std::string> markers() const;
};

// tools: as the client gave them, or null. Not for none and channels.
CallSyntax call_syntax(CallFormat format, std::shared_ptr<const OrderedJson> tools);

// One tool of the client's list, {"name", "parameters", ...}; null when there is none of that name.
const OrderedJson* find_tool(const OrderedJson* tools, std::string_view name);

// The text of an object of JSON from what a model gave as arguments: an object, or a string that holds one; nothing and
// null are "{}". Empty: neither.
std::string call_arguments(std::string_view written);

}  // namespace octavo
