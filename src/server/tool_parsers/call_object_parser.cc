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
  read_members();
  if (arguments_ == Part::missing && !known_only_) {
    call_.arguments = "{}";
    call_.whole = true;
    arguments_ = Part::good;
  }
  return call() != nullptr ? Verdict::call : Verdict::text;
}

ParsedCall* CallObjectParser::call() {
  read_members();
  return name_ == Part::good && arguments_ == Part::good ? &call_ : nullptr;
}

void CallObjectParser::read_members() {
  for (; num_read_ < object_.num_members(); ++num_read_) {
    const JsonObjectScanner::Member member = object_.member(num_read_);
    if (member.key == "arguments" || member.key == "parameters") read_arguments(member);
    if (!member.ended) return;
    if (member.key == "name" && name_ == Part::missing) read_name(member.value);
  }
}

void CallObjectParser::read_name(std::string_view written) {
  const auto parsed = parse_ordered_json(written, "");
  name_ = Part::bad;
  if (!parsed || !parsed->is_string() || parsed->get_ref<const std::string&>().empty()) return;
  call_.name = parsed->get<std::string>();
  if (!known_only_ || find_tool(tools_.get(), call_.name) != nullptr) name_ = Part::good;
}

// An object is taken as it comes; what else arguments may be, once it has ended.
void CallObjectParser::read_arguments(const JsonObjectScanner::Member& member) {
  if (call_.whole || arguments_ == Part::bad) return;
  if (member.value.starts_with('{')) {
    arguments_ = Part::good;
    call_.arguments += member.value.substr(taken_);
    taken_ = member.value.size();
    call_.whole = member.ended;
  } else if (member.ended) {
    call_.arguments = call_arguments(member.value);
    call_.whole = !call_.arguments.empty();
    arguments_ = call_.whole ? Part::good : Part::bad;
  }
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
