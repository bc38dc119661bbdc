#include "server/wire_messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace octavo {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

std::string entry(const char* list, std::size_t index) { return list + ("[" + std::to_string(index) + "]"); }

// A member that is there and not null.
const OrderedJson* member(const OrderedJson& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// One message or tool, by its place in the request: refuses what is wrong with it.
class Place {
 public:
  Place(Fields& fields, const char* list, std::size_t index)
      : fields_(fields), list_(list), name_(entry(list, index)) {}

  bool fail(const std::string& what) {
    fields_.refuse(list_, name_ + what);
    return false;
  }
  // Absent, or a text that may have to hold something.
  bool text(const OrderedJson& object, const std::string& path, const char* key, bool may_be_empty = true) {
    const OrderedJson* value = member(object, key);
    if (value == nullptr) return true;
    if (!value->is_string()) return fail(path + "." + key + " must be a string, but is " + shown(*value));
    return may_be_empty || !value->get_ref<const std::string&>().empty() || fail(path + "." + key + " is empty");
  }
  bool type(const OrderedJson& object, const std::string& path) {
    const OrderedJson* value = member(object, "type");
    if (value == nullptr || *value == "function") return true;
    return fail(path + ".type must be \"function\", but is " + shown(*value));
  }

 private:
  Fields& fields_;
  const char* list_;
  std::string name_;
};

// The text of one part of content. Nothing: it was refused.
std::optional<std::string> part_text(Place& place, const OrderedJson& part, std::size_t index) {
  const std::string path = "." + entry("content", index);
  const auto fail = [&](const std::string& what) -> std::optional<std::string> {
    place.fail(path + what);
    return std::nullopt;
  };
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) return fail(" must be an object or a string, but is " + shown(part));
  const OrderedJson* type = member(part, "type");
  if (type == nullptr) return fail(".type is missing: \"text\"");
  if (!type->is_string()) return fail(".type must be a string, but is " + shown(*type));
  const auto& kind = type->get_ref<const std::string&>();
  if (kind != "text" && kind != "input_text" && kind != "output_text" && kind != "refusal")
    return fail(" is of type " + in_quotes(kind) + ": this model reads text only");
  const char* key = kind == "refusal" ? "refusal" : "text";
  const OrderedJson* text = member(part, key);
  if (text == nullptr || !text->is_string())
    return fail("." + std::string(key) +
                (text == nullptr ? " is missing" : " must be a string, but is " + shown(*text)));
  return text->get<std::string>();
}

// A string, nothing, or a list of text parts, which are joined by line breaks.
std::optional<std::string> content_text(Place& place, const OrderedJson& message) {
  const OrderedJson* content = member(message, "content");
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    place.fail(".content must be a string or a list of parts, but is " + shown(*content));
    return std::nullopt;
  }
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    const auto part = part_text(place, (*content)[i], i);
    if (!part) return std::nullopt;
    text += (i == 0 ? "" : "\n") + *part;
  }
  return text;
}

// Most templates want a call's arguments as an object; clients send them as a string. What the model wrote and is no
// JSON stays as it is.
bool read_call(Place& place, const Words& words, const std::string& path, OrderedJson& call) {
  if (!call.is_object()) return place.fail(path + " must be an object, but is " + shown(call));
  if (!place.text(call, path, "id") || !place.type(call, path)) return false;
  const OrderedJson* given = member(call, "function");
  if (given == nullptr || !given->is_object()) return place.fail(path + ".function must be an object");
  if (member(*given, "name") == nullptr) return place.fail(path + ".function.name is missing");
  if (!place.text(*given, path + ".function", "name", false)) return false;
  OrderedJson& function = call["function"];
  const auto arguments = function.find("arguments");
  if (arguments == function.end() || arguments->is_null()) {
    function["arguments"] = words.history.text_arguments ? OrderedJson("{}") : OrderedJson::object();
  } else if (!arguments->is_string() && !arguments->is_object()) {
    return place.fail(path + ".function.arguments must be a string or an object, but is " + shown(*arguments));
  } else if (words.history.text_arguments) {
    if (!arguments->is_string()) *arguments = to_text(*arguments);
  } else if (arguments->is_string()) {
    const std::string text = arguments->get<std::string>();
    auto parsed = trim(text).empty() ? Result<OrderedJson>(OrderedJson::object()) : parse_ordered_json(text, "");
    if (parsed && parsed->is_object()) *arguments = *std::move(parsed);
  }
  return true;
}

bool read_calls(Place& place, const Words& words, const OrderedJson& message, OrderedJson& result) {
  const OrderedJson* calls = member(message, "tool_calls");
  if (calls == nullptr) return true;
  if (!calls->is_array()) return place.fail(".tool_calls must be a list, but is " + shown(*calls));
  if (calls->empty()) return true;
  if (result["role"] != "assistant") return place.fail(".tool_calls can only be an assistant's");
  OrderedJson list = *calls;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!read_call(place, words, "." + entry("tool_calls", i), list[i])) return false;
  result["tool_calls"] = std::move(list);
  if (words.history.null_content && result["content"] == "") result["content"] = nullptr;
  return true;
}

bool read_message(Place& place, const Words& words, const OrderedJson& message, OrderedJson& messages) {
  if (!message.is_object()) return place.fail(" must be an object, but is " + shown(message));
  const OrderedJson* role = member(message, "role");
  if (role == nullptr) return place.fail(".role is missing");
  if (!role->is_string()) return place.fail(".role must be a string, but is " + shown(*role));
  const std::string name = role->get<std::string>();
  if (std::find(kRoles.begin(), kRoles.end(), name) == kRoles.end())
    return place.fail(".role is " + in_quotes(name) + ": it must be system, developer, user, assistant or tool");
  if (name != "assistant" && !message.contains("content")) return place.fail(".content is missing");
  OrderedJson result;
  result["role"] = name == "developer" ? "system" : name;
  const auto content = content_text(place, message);
  if (!content) return false;
  result["content"] = *content;
  if (!read_calls(place, words, message, result)) return false;
  for (const char* key : {"name", "tool_call_id", "reasoning_content", "reasoning"}) {
    if (!place.text(message, "", key)) return false;
    if (const OrderedJson* value = member(message, key)) result[key] = *value;
  }
  if (result.contains("reasoning") && !result.contains("reasoning_content"))
    result["reasoning_content"] = result["reasoning"];
  messages.push_back(std::move(result));
  return true;
}

bool check_tool(Place place, const OrderedJson& tool) {
  if (!tool.is_object()) return place.fail(" must be an object, but is " + shown(tool));
  if (!place.type(tool, "")) return false;
  const OrderedJson* function = member(tool, "function");
  if (function == nullptr || !function->is_object())
    return place.fail(" must be {\"type\": \"function\", \"function\": {\"name\", ...}}");
  if (member(*function, "name") == nullptr) return place.fail(".function.name is missing");
  if (!place.text(*function, ".function", "name", false) || !place.text(*function, ".function", "description"))
    return false;
  const OrderedJson* parameters = member(*function, "parameters");
  if (parameters != nullptr && !parameters->is_object())
    return place.fail(".function.parameters must be an object, but is " + shown(*parameters));
  const OrderedJson* strict = member(*function, "strict");
  if (strict != nullptr && !strict->is_boolean())
    return place.fail(".function.strict must be true or false, but is " + shown(*strict));
  return true;
}

}  // namespace

void read_messages(Fields& fields, const Words& words, OrderedJson& messages) {
  const OrderedJson* given = fields.array("messages");
  if (given == nullptr) return fields.refuse("messages", "messages is missing: a list of at least one message");
  if (given->empty()) return fields.refuse("messages", "messages is empty: at least one message is needed");
  for (std::size_t i = 0; i < given->size(); ++i) {
    Place place(fields, "messages", i);
    if (!read_message(place, words, (*given)[i], messages)) return;
  }
}

void read_tools(Fields& fields, OrderedJson& tools) {
  const OrderedJson* given = fields.array("tools");
  if (given != nullptr && !given->empty()) {
    for (std::size_t i = 0; i < given->size(); ++i)
      if (!check_tool(Place(fields, "tools", i), (*given)[i])) return;
    tools = *given;
  }
  const OrderedJson* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  const std::string text = choice->is_string() ? choice->get<std::string>() : "";
  if (text == "none") {
    tools = nullptr;  // what the model does not know of it does not call
  } else if (given == nullptr) {
    fields.refuse("tool_choice", "tool_choice can only be given with tools");
  } else if (text == "auto") {
    return;
  } else if (choice->is_object() || text == "required") {
    fields.refuse("tool_choice",
                  "tool_choice required or a named function is not supported yet: only none and auto are");
  } else {
    fields.wrong_type("tool_choice", "none, auto, required or an object that names a function");
  }
}

}  // namespace octavo
