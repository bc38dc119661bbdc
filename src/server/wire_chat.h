// A chat request's JSON -> messages as templates know them -> the prompt's text -> a GenerationSpec.
#pragma once

#include <optional>
#include <string>

#include "server/fields.h"
#include "server/generation_spec.h"
#include "server/words.h"

namespace octavo {

// What goes into the template.
struct ChatInput {
  OrderedJson messages = OrderedJson::array();
  OrderedJson tools;      // null: none, or none may be called
  OrderedJson variables;  // chat_template_kwargs, documents, reasoning_effort
  std::optional<std::string> chat_template;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool add_special_tokens = false;
  bool echo = false;
};

// Errors go to `fields`.
void read_chat_input(Fields& fields, const Words& words, ChatInput& input);

// The prompt's text. What goes wrong is blamed on the request's own template where it has one, else on its messages.
Result<std::string> render_chat(const ChatInput& input, const Words& words);
const char* blamed_field(const ChatInput& input);

SpecResult read_chat_request(const OrderedJson& body, const Words& words);

}  // namespace octavo
