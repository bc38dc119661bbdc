#include "server/tool_parsers/call_object_parser.h"

#include "base/strings.h"

namespace octavo {
CallParser::Verdict CallObjectParser::feed(char c) {
  if (object_.empty() && is_json_space(c)) return Verdict::more;
  switch (object_.feed(c)) {
    case JsonObjectScanner::Verdict::more:
      return Verdict::more;
    case JsonObjectScanner::Verdict::invalid:
      return Verdict::text;
    case JsonObjectScanner::Verdict::complete:
      break;
  }
  return read_call() ? Verdict::call : Verdict::text;
}

bool CallObjectParser::read_call() {
  if (!parse_ordered_json(object_.text(), "")) return false;
  std::string_view name, arguments;
  bool has_arguments = false;
  for (const auto& member : object_.members()) {
    if (member.key == "name") name = member.value;
    if (member.key != "arguments" && member.key != "parameters") continue;
    arguments = member.value;
    has_arguments = true;
  }
  const auto parsed = parse_ordered_json(name, "");
  if (!parsed || !parsed->is_string() || parsed->get_ref<const std::string&>().empty()) return false;
  call_.name = parsed->get<std::string>();
  call_.arguments = call_arguments(arguments);
  if (known_only_ && (!has_arguments || find_tool(tools_.get(), call_.name) == nullptr)) return false;
  return !call_.arguments.empty();
}

CallParser::Verdict TaggedParser::feed(char c) {
  if (!inner_) {
    if (is_json_space(c)) return Verdict::more;
    if (c == '<')
      inner_ = std::make_unique<FunctionTagParser>(tools_, false);
    else
      inner_ = std::make_unique<CallObjectParser>(tools_, false);
  }
  return inner_->feed(c);
}

}  // namespace octavo
