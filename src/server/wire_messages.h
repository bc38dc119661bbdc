// A chat request's messages and tools as templates know them. Content in parts is joined, past calls get the form that
// the template wants. A fault is an error that says where it stands: `messages[2].tool_calls[0].id must be ...`.
#pragma once

#include "server/fields.h"
#include "server/words.h"

namespace octavo {

void read_messages(Fields& fields, const Words& words, OrderedJson& messages);

// tools and tool_choice. `tools` becomes what the template shows the model; it stays null for none.
void read_tools(Fields& fields, OrderedJson& tools);

}  // namespace octavo
