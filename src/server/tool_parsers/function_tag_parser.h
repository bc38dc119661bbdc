// Calls written as tags: <function=NAME><parameter=KEY>VALUE</parameter>...</function>. Values are text; the tool's
// schema says what they become as JSON: text stays text and is given out as it comes, anything else is taken as JSON
// where it is that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/tool_parsers/call_syntax.h"

namespace octavo {

class FunctionTagParser final : public CallParser {
 public:
  // inside: "<function=" has been read.
  FunctionTagParser(std::shared_ptr<const OrderedJson> tools, bool inside);

  Verdict feed(char c) override;
  ParsedCall* call() override;

 private:
  enum class At { tag, name, key, value };

  Verdict read_tag(char c);
  Verdict read_name(char c, std::string& name, At then);
  void begin_value();
  void show_text(std::size_t end);
  void end_value();
  std::string json_value(const std::string& text) const;
  bool allows(const char* type) const;

  std::shared_ptr<const OrderedJson> tools_;
  At at_ = At::tag;
  bool named_ = false;
  std::string piece_;  // of what is being read
  std::string key_;
  std::vector<std::string> types_;  // of the value, as the schema has them
  bool is_text_ = false;            // the value, whatever it is
  std::size_t shown_ = 0;           // letters of piece_ that were given out, or are no part of the value
  bool begun_ = false;              // the arguments have
  ParsedCall call_;
};

}  // namespace octavo
