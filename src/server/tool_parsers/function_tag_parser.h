// Calls written as tags: <function=NAME><parameter=KEY>VALUE</parameter>...</function>. Values are text; the tool's
// schema says what they become as JSON: text stays text, anything else is taken as JSON where it is that.
#pragma once

#include <memory>
#include <string>

#include "server/tool_parsers/call_syntax.h"

namespace octavo {

class FunctionTagParser final : public CallParser {
 public:
  // inside: "<function=" has been read.
  FunctionTagParser(std::shared_ptr<const OrderedJson> tools, bool inside);

  Verdict feed(char c) override;
  ParsedCall call() override;

 private:
  enum class At { tag, name, key, value };

  Verdict read_tag(char c);
  Verdict read_name(char c, std::string& name, At then);
  std::string json_value(const std::string& text) const;

  std::shared_ptr<const OrderedJson> tools_;
  At at_ = At::tag;
  bool named_ = false;
  std::string piece_;  // of what is being read
  std::string name_, key_;
  std::string members_;  // "\"key\": value, ..."
};

}  // namespace octavo
