// Calls written as one object of JSON: {"name": ..., "arguments": {...}}, or "parameters"; with white space before it.
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
  ParsedCall call() override { return std::move(call_); }

 private:
  bool read_call();

  std::shared_ptr<const OrderedJson> tools_;
  bool known_only_;
  JsonObjectScanner object_;
  ParsedCall call_;
};

// What stands between tags: an object of JSON, or tags of functions and parameters.
class TaggedParser final : public CallParser {
 public:
  explicit TaggedParser(std::shared_ptr<const OrderedJson> tools) : tools_(std::move(tools)) {}
  Verdict feed(char c) override;
  ParsedCall call() override { return inner_->call(); }

 private:
  std::shared_ptr<const OrderedJson> tools_;
  std::unique_ptr<CallParser> inner_;
};

}  // namespace octavo
