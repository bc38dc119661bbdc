#include "server/answer_reader.h"

#include <algorithm>
#include <utility>

#include "server/answer_plan.h"
#include "server/answer_sink.h"
#include "server/call_reader.h"
#include "server/think_reader.h"
#include "server/tool_parsers/channel_reader.h"

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

// No marks: all is content.
class ContentStage final : public AnswerStage {
 public:
  explicit ContentStage(AnswerSink& sink) : sink_(sink) {}
  void push(std::string_view text) override { sink_.content(text); }
  void finish() override {}

 private:
  AnswerSink& sink_;
};

std::unique_ptr<AnswerStage> make_stages(const AnswerPlan& plan, AnswerSink& sink) {
  if (plan.calls == CallFormat::channels || plan.reasoning == ReasoningFormat::channels)
    return std::make_unique<ChannelReader>(plan, sink);
  std::unique_ptr<AnswerStage> stage;
  if (plan.calls == CallFormat::none)
    stage = std::make_unique<ContentStage>(sink);
  else
    stage = std::make_unique<CallReader>(call_syntax(plan.calls, plan.tools), sink);
  if (plan.reasoning == ReasoningFormat::none) return stage;
  return std::make_unique<ThinkReader>(plan.think_open() ? ThinkStart::open : plan.think, sink, std::move(stage));
}

class StagedReader final : public AnswerReader {
 public:
  StagedReader(const AnswerPlan& plan, std::vector<std::string> stops, bool include_stop)
      : sink_({.stops = std::move(stops),
               .include_stop = include_stop,
               .has_calls = plan.calls != CallFormat::none,
               .single_call = plan.single_call,
               .reasoning = plan.include_reasoning}),
        stages_(make_stages(plan, sink_)) {}

  AnswerDelta push(std::string_view text) override {
    if (!sink_.end()) stages_->push(text);
    return sink_.take();
  }
  AnswerDelta finish() override {
    if (!sink_.end()) stages_->finish();
    sink_.finish();
    return sink_.take();
  }
  void look_for_stops(bool look) override { sink_.look_for_stops(look); }
  std::optional<AnswerEnd> end() const override { return sink_.end(); }
  bool ends_with_call() const override { return sink_.ends_with_call(); }

 private:
  AnswerSink sink_;
  std::unique_ptr<AnswerStage> stages_;
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
      known->broken |= call.broken;
    }
  }
}

bool AnswerDelta::broken_call() const {
  return std::any_of(tool_calls.begin(), tool_calls.end(), [](const ToolCallDelta& call) { return call.broken; });
}

std::unique_ptr<AnswerReader> make_plain_reader() { return std::make_unique<PlainReader>(); }

std::unique_ptr<AnswerReader> make_answer_reader(const AnswerPlan& plan, std::vector<std::string> stops,
                                                 bool include_stop) {
  return std::make_unique<StagedReader>(plan, std::move(stops), include_stop);
}

void read_prompt_end(const std::string& prompt, const std::string* continued, AnswerPlan& plan) {
  plan.channel_head = begun_channel_head(prompt);
  if (continued != nullptr) {
    const std::size_t open = continued->rfind(kThinkBegin), closed = continued->rfind(kThinkEnd);
    const bool thinks = open != std::string::npos && (closed == std::string::npos || closed < open);
    plan.think = thinks ? ThinkStart::open : ThinkStart::closed;
    return;
  }
  const std::string_view end = std::string_view(prompt).substr(0, prompt.find_last_not_of(" \t\r\n") + 1);
  if (end.ends_with(kThinkBegin)) plan.think = ThinkStart::open;
  if (end.ends_with(kThinkEnd)) plan.think = ThinkStart::closed;
}

}  // namespace octavo
