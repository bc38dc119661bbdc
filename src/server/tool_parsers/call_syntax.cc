#include "server/tool_parsers/call_syntax.h"

#include "base/strings.h"
#include "server/tool_parsers/call_object_parser.h"
#include "server/tool_parsers/function_tag_parser.h"
#include "server/tool_parsers/section_parser.h"

namespace octavo {
namespace {

constexpr const char* kSectionBegin = "<｜tool▁calls▁begin｜>";
constexpr const char* kSectionEnd = "<｜tool▁calls▁end｜>";
constexpr const char* kSeparator = "<｜tool▁sep｜>";
constexpr const char* kOneCallEnd = "<｜tool▁call▁end｜>";
constexpr const char* kNumberedSection = "<|tool_calls_section_begin|>";
constexpr const char* kNumberedSectionEnd = "<|tool_calls_section_end|>";
constexpr const char* kNumberedSeparator = "<|tool_call_argument_begin|>";
constexpr const char* kNumberedEnd = "<|tool_call_end|>";
constexpr const char* kPythonTag = "<|python_tag|>";

CallSyntax tagged(bool bare_functions, std::shared_ptr<const OrderedJson> tools) {
  CallSyntax syntax;
  syntax.openers = {kToolCall};
  if (bare_functions) syntax.openers.emplace_back(kFunction);
  syntax.closers = {"</tool_call>"};
  syntax.begin = [tools](std::string_view opener) -> std::unique_ptr<CallParser> {
    if (opener == kFunction) return std::make_unique<FunctionTagParser>(tools, true);
    return std::make_unique<TaggedParser>(tools);
  };
  return syntax;
}

CallSyntax sections(bool fenced) {
  CallSyntax syntax;
  syntax.openers = {kSectionBegin, kCallBegin};
  if (fenced) syntax.closers = {"```"};
  syntax.closers.insert(syntax.closers.end(), {kOneCallEnd, kSectionEnd});
  syntax.inner = {kSeparator};
  const SectionRules rules{
      .call_begin = kCallBegin,
      .separators = fenced ? std::vector<std::string>{kSeparator, kFence} : std::vector<std::string>{kSeparator},
      .numbered = false};
  syntax.begin = [rules](std::string_view opener) -> std::unique_ptr<CallParser> {
    return std::make_unique<SectionParser>(rules, opener == kSectionBegin);
  };
  return syntax;
}

CallSyntax numbered_sections() {
  CallSyntax syntax;
  syntax.openers = {kNumberedSection, kNumberedBegin};
  syntax.closers = {kNumberedEnd, kNumberedSectionEnd};
  syntax.inner = {kNumberedSeparator};
  const SectionRules rules{.call_begin = kNumberedBegin, .separators = {kNumberedSeparator}, .numbered = true};
  syntax.begin = [rules](std::string_view opener) -> std::unique_ptr<CallParser> {
    return std::make_unique<SectionParser>(rules, opener == kNumberedSection);
  };
  return syntax;
}

CallSyntax bare_json(std::shared_ptr<const OrderedJson> tools) {
  CallSyntax syntax;
  syntax.openers = {kPythonTag};
  syntax.leading = '{';
  syntax.between = ';';
  syntax.begin = [tools](std::string_view) -> std::unique_ptr<CallParser> {
    return std::make_unique<CallObjectParser>(tools, true);
  };
  return syntax;
}

}  // namespace

std::vector<std::string> CallSyntax::markers() const {
  std::vector<std::string> all = openers;
  all.insert(all.end(), closers.begin(), closers.end());
  all.insert(all.end(), inner.begin(), inner.end());
  return all;
}

CallSyntax call_syntax(CallFormat format, std::shared_ptr<const OrderedJson> tools) {
  switch (format) {
    case CallFormat::functions:
      return tagged(true, std::move(tools));
    case CallFormat::fenced_sections:
      return sections(true);
    case CallFormat::sections:
      return sections(false);
    case CallFormat::numbered_sections:
      return numbered_sections();
    case CallFormat::bare_json:
      return bare_json(std::move(tools));
    case CallFormat::tagged:
    case CallFormat::none:
    case CallFormat::channels:
      break;
  }
  return tagged(false, std::move(tools));
}

const OrderedJson* find_tool(const OrderedJson* tools, std::string_view name) {
  if (tools == nullptr || !tools->is_array()) return nullptr;
  for (const OrderedJson& tool : *tools) {
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object()) continue;
    const auto known = function->find("name");
    if (known != function->end() && known->is_string() && known->get_ref<const std::string&>() == name)
      return &*function;
  }
  return nullptr;
}

std::string call_arguments(std::string_view written) {
  written = trim(written);
  if (written.empty() || written == "null") return "{}";
  auto value = parse_ordered_json(written, "");
  if (!value) return {};
  if (value->is_object()) return std::string(written);
  if (!value->is_string()) return {};
  const std::string inner(trim(value->get_ref<const std::string&>()));
  value = parse_ordered_json(inner, "");
  return value && value->is_object() ? inner : std::string();
}

}  // namespace octavo
