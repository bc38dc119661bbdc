// ChannelReader: answers that are several messages, each with a channel and perhaps a recipient, between markers:
// reasoning in one channel, content in the others, calls as messages to a function.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/answer_plan.h"
#include "server/answer_sink.h"
#include "server/json_object_scanner.h"

namespace octavo {

class ChannelReader final : public AnswerStage {
 public:
  ChannelReader(const AnswerPlan& plan, AnswerSink& sink);
  void push(std::string_view text) override;
  void finish() override;

 private:
  enum class Kind { reasoning, content, call, after_call };

  void read_marker(std::string_view marker);
  void read_text(std::string_view text);
  void begin_body();
  void end_message();
  void give(std::string_view text);
  void read_call(std::string_view text);

  AnswerSink& sink_;
  const bool calls_, reasons_;
  std::string held_;
  bool in_head_ = true;
  std::string head_;
  std::size_t prompts_;  // letters of head_ that the prompt wrote
  Kind kind_ = Kind::content;
  std::string recipient_, body_;                // of a call whose arguments have not begun
  std::optional<JsonObjectScanner> arguments_;  // have begun
  bool begun_ = false;                          // this message gave something out
  bool content_ = false, reasoning_ = false;    // an earlier one did
};

// The head of the message that a prompt has begun, for AnswerPlan::channel_head.
std::string begun_channel_head(std::string_view prompt);

}  // namespace octavo
