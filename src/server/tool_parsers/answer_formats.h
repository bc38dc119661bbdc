// How models write calls of tools and reasoning down, which of it a chat template shows, and the names that
// --tool-call-parser and --reasoning-parser take: vLLM's, auto (what the template shows) and none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo {

constexpr std::string_view kThinkBegin = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

enum class CallFormat {
  none,
  tagged,             // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, or with tags inside
  functions,          // the same, and <function=NAME> without the tag around it
  fenced_sections,    // markers of a section and of each call; arguments between ```json and ```
  sections,           // the same markers, bare arguments
  numbered_sections,  // other markers; calls named functions.NAME:0
  bare_json,          // the answer is one or several {"name": ..., "parameters": {...}}
  channels,           // messages with a channel and a recipient
};

enum class ReasoningFormat {
  none,
  tags,         // <think>...</think>, when the answer or the prompt begins it
  tags_opened,  // the same, and begun even if neither does
  channels,     // messages with a channel
};

struct AnswerFormats {
  CallFormat calls = CallFormat::none;
  ReasoningFormat reasoning = ReasoningFormat::none;
};

std::vector<std::string> call_parser_names();
std::vector<std::string> reasoning_parser_names();

// An unknown name is an error that lists the known ones. With "auto" the template's source decides.
Result<AnswerFormats> choose_answer_formats(std::string_view call_parser, std::string_view reasoning_parser,
                                            std::string_view template_source);

// For people: "hermes"; "none".
std::string format_name(CallFormat format);
std::string format_name(ReasoningFormat format);

// The markers of these formats; a tokenizer may count some of them among the special tokens.
std::vector<std::string> format_markers(const AnswerFormats& formats);

}  // namespace octavo
