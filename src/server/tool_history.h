// Templates differ in how they want the calls of earlier turns: arguments as an object or as text, content empty or
// absent. A template that gets the other leaves calls out without a word, or fails; so it is asked at start, by
// rendering a made-up call in each way.
#pragma once

#include "base/json.h"
#include "text/chat_template.h"

namespace octavo {

struct ToolHistory {
  bool text_arguments = false;
  bool null_content = false;  // beside calls
  bool shows_tools = true;    // the list of tools appears in the prompt
  bool shows_calls = true;    // in one of the ways
};

ToolHistory probe_tool_history(const ChatTemplate& chat_template, const OrderedJson& special);

}  // namespace octavo
