// Fuzz target: what models write, for every reader of calls and reasoning. Two letters of the input choose readers and
// cuts, the rest is text, made UTF-8 and cut between characters. However it is cut the answer is the same, arguments
// are objects of JSON unless the call is broken, and where no call and no reasoning was found every letter is content.
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/json.h"
#include "server/answer_plan.h"
#include "server/answer_reader.h"
#include "tests/fuzz/require.h"

namespace octavo {
namespace {

std::string shown_answer(const AnswerDelta& answer) {
  std::string text = answer.reasoning + '\0' + answer.content;
  for (const ToolCallDelta& call : answer.tool_calls)
    text += '\0' + call.name + '\0' + call.arguments + (call.broken ? '-' : '+');
  return text;
}

bool inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

AnswerDelta read_answer(const AnswerPlan& plan, std::string_view text, unsigned rare, unsigned seed) {
  const auto reader = make_answer_reader(plan, {"STOP", "\n\n\n"}, false);
  std::mt19937 random(seed);
  AnswerDelta answer;
  for (std::size_t from = 0, to = 0; from < text.size(); from = to) {
    do ++to;
    while (to < text.size() && (inside_character(text[to]) || random() % rare != 0));
    answer.append(reader->push(text.substr(from, to - from)));
  }
  answer.append(reader->finish());
  return answer;
}

AnswerPlan chosen_plan(unsigned choice) {
  const std::vector<std::string> calls = call_parser_names(), reasoning = reasoning_parser_names();
  const auto formats =
      choose_answer_formats(calls[choice % calls.size()], reasoning[choice / 7 % reasoning.size()], "");
  AnswerPlan plan;
  plan.calls = formats->calls;
  plan.reasoning = formats->reasoning;
  plan.think = static_cast<ThinkStart>(choice % 3);
  plan.channel_head = "assistant";
  plan.single_call = choice % 11 == 0;
  plan.tools = std::make_shared<const OrderedJson>(
      *parse_ordered_json(R"([{"function":{"name":"now","parameters":{"properties":{"a":{"type":"integer"}}}}}])", ""));
  return plan;
}

}  // namespace
}  // namespace octavo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octavo;
  if (size < 2) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string text = parse_ordered_json(to_text(OrderedJson(bytes)), "")->get<std::string>();
  const AnswerPlan plan = chosen_plan(data[0]);
  const AnswerDelta whole = read_answer(plan, text, UINT32_MAX, 1);
  for (const unsigned rare : {1u, 2u + data[1] % 20u})
    require(shown_answer(read_answer(plan, text, rare, data[1])) == shown_answer(whole), "the cuts change nothing",
            text);
  for (const ToolCallDelta& call : whole.tool_calls) {
    const auto arguments = parse_json(call.arguments, "arguments");
    const bool whole = arguments.has_value() && arguments->is_object();
    require(whole != call.broken && !call.name.empty(), "arguments are JSON", text);
  }
  const bool stopped = text.find("STOP") != std::string_view::npos || text.find("\n\n\n") != std::string_view::npos;
  if (plan.reasoning == ReasoningFormat::none && plan.calls != CallFormat::channels && whole.tool_calls.empty() &&
      !stopped)
    require(whole.content == text, "nothing is lost", text);
  return 0;
}
