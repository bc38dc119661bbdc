#include "server/tool_history.h"

#include <string>

namespace octavo {
namespace {

constexpr const char* kProbeTool = "octavo_probe_tool";
constexpr const char* kProbeArgument = "\"octavo_probe_key\": \"octavo_probe_value\"";

OrderedJson message(const char* role, OrderedJson content) {
  OrderedJson result;
  result["role"] = role;
  result["content"] = std::move(content);
  return result;
}

std::string rendered(const ChatTemplate& chat_template, const OrderedJson& special, OrderedJson messages,
                     OrderedJson tools) {
  OrderedJson variables = special;
  variables["messages"] = std::move(messages);
  variables["tools"] = std::move(tools);
  variables["add_generation_prompt"] = true;
  const auto text = chat_template.render(variables);
  return text ? *text : std::string();
}

OrderedJson probe_tools() {
  OrderedJson function;
  function["name"] = kProbeTool;
  function["description"] = "probe";
  function["parameters"] = {{"type", "object"}, {"properties", OrderedJson::object()}};
  OrderedJson tool;
  tool["type"] = "function";
  tool["function"] = std::move(function);
  return OrderedJson::array({tool});
}

OrderedJson past_call(bool text_arguments, bool null_content) {
  const std::string arguments = std::string("{") + kProbeArgument + "}";
  OrderedJson call;
  call["id"] = "probe0000";
  call["type"] = "function";
  call["function"]["name"] = kProbeTool;
  call["function"]["arguments"] = text_arguments ? OrderedJson(arguments) : OrderedJson::parse(arguments);
  OrderedJson assistant = message("assistant", null_content ? OrderedJson() : OrderedJson(""));
  assistant["tool_calls"] = OrderedJson::array({call});
  OrderedJson answer = message("tool", "probe");
  answer["tool_call_id"] = "probe0000";
  return OrderedJson::array({message("user", "probe"), assistant, answer});
}

}  // namespace

ToolHistory probe_tool_history(const ChatTemplate& chat_template, const OrderedJson& special) {
  ToolHistory history;
  const std::string with_tools =
      rendered(chat_template, special, OrderedJson::array({message("user", "probe")}), probe_tools());
  history.shows_tools = with_tools.find(kProbeTool) != std::string::npos;
  for (const bool null_content : {false, true}) {
    for (const bool text_arguments : {false, true}) {
      const std::string text = rendered(chat_template, special, past_call(text_arguments, null_content), OrderedJson());
      if (text.find(kProbeTool) == std::string::npos || text.find(kProbeArgument) == std::string::npos) continue;
      history.text_arguments = text_arguments;
      history.null_content = null_content;
      return history;
    }
  }
  history.shows_calls = false;
  return history;
}

}  // namespace octavo
