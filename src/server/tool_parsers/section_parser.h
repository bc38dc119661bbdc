// Calls between markers that stand for themselves: the name first, up to a separator, then the arguments.
#pragma once

#include <string>
#include <vector>

#include "server/json_object_scanner.h"
#include "server/tool_parsers/call_syntax.h"

namespace octavo {

struct SectionRules {
  std::string call_begin;
  std::vector<std::string> separators;  // the name stands before the last; what stands before the others says nothing
  bool numbered = false;                // the name is written as functions.NAME:0, which is the call's id too
};

class SectionParser final : public CallParser {
 public:
  // in_section: the section's marker was read, and the call's comes next.
  SectionParser(SectionRules rules, bool in_section) : rules_(std::move(rules)), awaits_begin_(in_section) {}

  Verdict feed(char c) override;
  ParsedCall* call() override;

 private:
  Verdict read_begin(char c);
  Verdict read_head(char c);
  bool read_name();

  SectionRules rules_;
  bool awaits_begin_;
  std::size_t separator_ = 0;
  std::string piece_;
  JsonObjectScanner arguments_;
  std::size_t taken_ = 0;  // letters of them that call_ has had
  ParsedCall call_;
};

}  // namespace octavo
