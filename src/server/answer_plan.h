// AnswerPlan: how the text of one request's answers is to be read: where reasoning and calls of tools stand in it.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "server/tool_parsers/answer_formats.h"

namespace octavo {

// What the prompt says of the reasoning that may begin the answer.
enum class ThinkStart { unknown, open, closed };

struct AnswerPlan {
  CallFormat calls = CallFormat::none;
  ReasoningFormat reasoning = ReasoningFormat::none;
  ThinkStart think = ThinkStart::unknown;
  std::string channel_head;  // of ReasoningFormat::channels: the message that the prompt has begun
  bool include_reasoning = true;
  bool single_call = false;
  std::shared_ptr<const OrderedJson> tools;  // as the client gave them; null: none

  // Whether the answer begins within reasoning.
  bool think_open() const {
    return think == ThinkStart::open || (reasoning == ReasoningFormat::tags_opened && think == ThinkStart::unknown);
  }
  bool plain() const { return calls == CallFormat::none && reasoning == ReasoningFormat::none; }
};

// Reads off the end of the prompt what the answer begins with. `continued`: the text that the answer goes on from, when
// the prompt ends with a part of it; null: it begins anew.
void read_prompt_end(const std::string& prompt, const std::string* continued, AnswerPlan& plan);

}  // namespace octavo
