#include "server/answer_reader.h"

#include <algorithm>

namespace octavo {
namespace {

class PlainReader final : public AnswerReader {
 public:
  AnswerDelta push(std::string_view text) override {
    AnswerDelta delta;
    delta.content = std::string(text);
    return delta;
  }
  AnswerDelta finish() override { return {}; }
};

}  // namespace

void AnswerDelta::append(const AnswerDelta& next) {
  content += next.content;
  reasoning += next.reasoning;
  for (const ToolCallDelta& call : next.tool_calls) {
    const auto same = [&](const ToolCallDelta& other) { return other.index == call.index; };
    const auto known = std::find_if(tool_calls.begin(), tool_calls.end(), same);
    if (known == tool_calls.end()) {
      tool_calls.push_back(call);
    } else {
      known->id += call.id;
      known->name += call.name;
      known->arguments += call.arguments;
    }
  }
}

std::unique_ptr<AnswerReader> make_plain_reader() { return std::make_unique<PlainReader>(); }

}  // namespace octavo
