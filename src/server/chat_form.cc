#include <utility>

#include "server/answer_form.h"
#include "server/logprobs_json.h"

namespace octavo {
namespace {

OrderedJson tool_calls_json(const std::vector<ToolCallDelta>& calls, bool streamed) {
  OrderedJson list = OrderedJson::array();
  for (const ToolCallDelta& call : calls) {
    OrderedJson entry;
    if (streamed) entry["index"] = call.index;
    if (!call.id.empty()) {
      entry["id"] = call.id;
      entry["type"] = "function";
    }
    if (!call.name.empty()) entry["function"]["name"] = call.name;
    entry["function"]["arguments"] = call.arguments;
    list.push_back(std::move(entry));
  }
  return list;
}

class ChatForm final : public AnswerForm {
 public:
  explicit ChatForm(FormFacts facts)
      : AnswerForm(std::move(facts), "chatcmpl-", "chat.completion", "chat.completion.chunk") {}

  std::vector<std::string> chunks(const Piece& piece, const Usage* usage) override {
    std::vector<std::string> result;
    if (piece.first) {
      result.push_back(chunk(piece, "{\"role\":\"assistant\",\"content\":\"\"}", "null", false, usage));
      result.back().insert(result.back().size() - 1, prompt_ids_member(piece.prompt));
      if (facts_.echo && !facts_.prompts.front().echo.empty())
        result.push_back(
            chunk(piece, "{\"content\":" + to_text(Json(facts_.prompts.front().echo)) + "}", "null", false, usage));
    }
    std::string logprobs = "null";
    if (facts_.logprobs && !piece.tokens.empty())
      logprobs = to_text(chat_logprobs(piece.tokens, *facts_.logprobs, names()));
    if (!piece.delta.empty() || !piece.tokens.empty()) {
      AnswerDelta delta = piece.delta;
      const std::vector<ToolCallDelta> arguments = cut_arguments(delta);
      result.push_back(chunk(piece, delta_text(delta), logprobs, false, usage, token_ids_member(piece)));
      if (!arguments.empty())
        result.push_back(
            chunk(piece, "{\"tool_calls\":" + to_text(tool_calls_json(arguments, true)) + "}", "null", false, usage));
    }
    if (!piece.finish.empty()) result.push_back(chunk(piece, "{}", "null", true, usage));
    return result;
  }

  std::string whole(const std::vector<Piece>& pieces, const Usage& usage) override {
    std::string choices;
    for (const Piece& piece : pieces) {
      OrderedJson message;
      message["role"] = "assistant";
      const std::string& echo = facts_.prompts.front().echo;
      const std::string content = (facts_.echo ? echo : std::string()) + piece.delta.content;
      const bool only_calls = content.empty() && !piece.delta.tool_calls.empty();
      message["content"] = only_calls ? OrderedJson() : OrderedJson(content);
      if (!piece.delta.reasoning.empty()) {
        message["reasoning"] = piece.delta.reasoning;
        message["reasoning_content"] = piece.delta.reasoning;
      }
      if (!piece.delta.tool_calls.empty()) message["tool_calls"] = tool_calls_json(piece.delta.tool_calls, false);
      OrderedJson choice;
      choice["index"] = piece.choice;
      choice["message"] = std::move(message);
      choice["logprobs"] = facts_.logprobs ? chat_logprobs(piece.tokens, *facts_.logprobs, names()) : OrderedJson();
      choice["finish_reason"] = piece.finish;
      choice["stop_reason"] = piece.stop_reason;
      choices += (choices.empty() ? "" : ",") + to_text(choice);
      choices.insert(choices.size() - 1, token_ids_member(piece));
    }
    std::string text =
        head_of_whole_ + ",\"choices\":[" + choices + "],\"usage\":" + usage.json() + prompt_ids_member(0);
    if (facts_.prompt_logprobs)
      text += ",\"prompt_logprobs\":" + to_text(prompt_logprobs_json(facts_.prompts.front().ids, prompt_rows_.front(),
                                                                     *facts_.prompt_logprobs, *facts_.tokenizer));
    return text + "}";
  }

 private:
  // Clients take the name of a call from its first delta, and arguments from later ones only.
  static std::vector<ToolCallDelta> cut_arguments(AnswerDelta& delta) {
    std::vector<ToolCallDelta> later;
    for (ToolCallDelta& call : delta.tool_calls)
      if (!call.id.empty() && !call.arguments.empty())
        later.push_back({call.index, "", "", std::exchange(call.arguments, {})});
    return later;
  }

  // Mostly a few letters of content for each of thousands of streams: written without building JSON.
  static std::string delta_text(const AnswerDelta& delta) {
    if (delta.reasoning.empty() && delta.tool_calls.empty())
      return "{\"content\":" + to_text(Json(delta.content)) + "}";
    OrderedJson json;
    if (!delta.reasoning.empty()) {
      json["reasoning"] = delta.reasoning;
      json["reasoning_content"] = delta.reasoning;
    }
    if (!delta.content.empty()) json["content"] = delta.content;
    if (!delta.tool_calls.empty()) json["tool_calls"] = tool_calls_json(delta.tool_calls, true);
    return to_text(json);
  }

  // members: of the choice, ",NAME:VALUE".
  std::string chunk(const Piece& piece, const std::string& delta, const std::string& logprobs, bool last,
                    const Usage* usage, const std::string& members = {}) const {
    std::string text = head_of_chunk_ + ",\"choices\":[{\"index\":" + std::to_string(piece.choice) +
                       ",\"delta\":" + delta + ",\"logprobs\":" + logprobs + ",\"finish_reason\":";
    if (last)
      text += "\"" + piece.finish + "\",\"stop_reason\":" + to_text(piece.stop_reason);
    else
      text += "null";
    text += members + "}]";
    if (usage != nullptr) text += ",\"usage\":" + usage->json();
    return text + "}";
  }
};

}  // namespace

std::unique_ptr<AnswerForm> make_chat_form(FormFacts facts) { return std::make_unique<ChatForm>(std::move(facts)); }

}  // namespace octavo
