#include "server/tool_parsers/answer_formats.h"

#include <array>

#include "base/strings.h"
#include "server/tool_parsers/call_syntax.h"

namespace octavo {
namespace {

template <class Format>
struct ParserName {
  const char* name;
  Format format;
};

// The first name of a format is the one that people are told.
constexpr std::array<ParserName<CallFormat>, 10> kCallParsers = {{
    {"hermes", CallFormat::tagged},
    {"qwen3", CallFormat::tagged},
    {"qwen3_coder", CallFormat::functions},
    {"qwen3_xml", CallFormat::functions},
    {"llama3_json", CallFormat::bare_json},
    {"llama4_json", CallFormat::bare_json},
    {"deepseek_v3", CallFormat::fenced_sections},
    {"deepseek_v31", CallFormat::sections},
    {"kimi_k2", CallFormat::numbered_sections},
    {"openai", CallFormat::channels},
}};

constexpr std::array<ParserName<ReasoningFormat>, 6> kReasoningParsers = {{
    {"qwen3", ReasoningFormat::tags},
    {"deepseek_v3", ReasoningFormat::tags},
    {"glm45", ReasoningFormat::tags},
    {"kimi_k2", ReasoningFormat::tags},
    {"deepseek_r1", ReasoningFormat::tags_opened},
    {"openai_gptoss", ReasoningFormat::channels},
}};

template <class Table>
std::vector<std::string> names_of(const Table& table) {
  std::vector<std::string> names = {"auto", "none"};
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

template <class Table, class Format>
Result<Format> find_format(const Table& table, std::string_view name, Format shown) {
  if (name == "auto") return shown;
  if (name == "none") return Format::none;
  for (const auto& row : table)
    if (name == row.name) return row.format;
  return Error("parser " + in_quotes(name) + " is not one of " + join(names_of(table), ", "));
}

template <class Table, class Format>
std::string told_name(const Table& table, Format format) {
  for (const auto& row : table)
    if (row.format == format) return row.name;
  return "none";
}

AnswerFormats shown_formats(std::string_view source) {
  const auto has = [&](std::string_view text) { return source.find(text) != std::string_view::npos; };
  if (has(kChannel) && has(kMessage)) return {CallFormat::channels, ReasoningFormat::channels};
  AnswerFormats formats;
  if (has(kThinkEnd)) formats.reasoning = ReasoningFormat::tags;
  if (has(kToolCall))
    formats.calls = has(kFunction) ? CallFormat::functions : CallFormat::tagged;
  else if (has(kCallBegin))
    formats.calls = has(kFence) ? CallFormat::fenced_sections : CallFormat::sections;
  else if (has(kNumberedBegin))
    formats.calls = CallFormat::numbered_sections;
  else if (has("<|start_header_id|>") && has("tools") && has("parameters"))
    formats.calls = CallFormat::bare_json;
  return formats;
}

}  // namespace

std::vector<std::string> call_parser_names() { return names_of(kCallParsers); }
std::vector<std::string> reasoning_parser_names() { return names_of(kReasoningParsers); }

std::string format_name(CallFormat format) { return told_name(kCallParsers, format); }
std::string format_name(ReasoningFormat format) { return told_name(kReasoningParsers, format); }

Result<AnswerFormats> choose_answer_formats(std::string_view call_parser, std::string_view reasoning_parser,
                                            std::string_view template_source) {
  const AnswerFormats shown = shown_formats(template_source);
  AnswerFormats formats;
  OCTAVO_TRY(formats.calls, find_format(kCallParsers, call_parser, shown.calls));
  OCTAVO_TRY(formats.reasoning, find_format(kReasoningParsers, reasoning_parser, shown.reasoning));
  return formats;
}

std::vector<std::string> format_markers(const AnswerFormats& formats) {
  std::vector<std::string> markers;
  if (formats.calls == CallFormat::channels || formats.reasoning == ReasoningFormat::channels)
    markers = {kStart, kChannel, kMessage, kConstrain, kEnd, kCallEnd, kReturn};
  else if (formats.calls != CallFormat::none)
    markers = call_syntax(formats.calls, {}).markers();
  if (formats.reasoning == ReasoningFormat::tags || formats.reasoning == ReasoningFormat::tags_opened) {
    markers.emplace_back(kThinkBegin);
    markers.emplace_back(kThinkEnd);
  }
  return markers;
}

}  // namespace octavo
