// Calls written as one object of JSON: {"name": ..., "arguments": {...}}, or "parameters"; with white space before it.
// Of several names or arguments the first count.
#pragma once

#include <memory>

#include "server/json_object_scanner.h"
#include "server/tool_parsers/call_syntax.h"
#include "server/tool_parsers/function_tag_parser.h"

namespace octavo {

class CallObjectParser final : public CallParser {
 public:
  // known_only: what has no arguments, or a name that is none of the tools', is text: the object has no mark around it
  // and may be an answer.
  CallObjectParser(std::shared_ptr<const OrderedJson> tools, bool known_only)
      : tools_(std::move(tools)), known_only_(known_only) {}

  Verdict feed(char c) override;
  ParsedCall* call() override;

 private:
  void read_members();
  void read_name(std::string_view written);
  void read_arguments(const JsonObjectScanner::Member& member);

  enum class Part { missing, good, bad };

  std::shared_ptr<const OrderedJson> tools_;
  bool known_only_;
  JsonObjectScanner object_;
  std::size_t num_read_ = 0;  // members that have ended and were looked at
  Part name_ = Part::missing, arguments_ = Part::missing;
  std::size_t taken_ = 0;  // letters of the arguments that call_ has had
  ParsedCall call_;
};

// What stands between tags: an object of JSON, or tags of functions and parameters.
class TaggedParser final : public CallParser {
 public:
  explicit TaggedParser(std::shared_ptr<const OrderedJson> tools) : tools_(std::move(tools)) {}
  Verdict feed(char c) override;
  ParsedCall* call() override { return inner_ ? inner_->call() : nullptr; }

 private:
  std::shared_ptr<const OrderedJson> tools_;
  std::unique_ptr<CallParser> inner_;
};

}  // namespace octavo
