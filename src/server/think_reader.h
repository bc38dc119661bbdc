// ThinkReader: reasoning between <think> and </think>, which a prompt may have opened or closed already; what follows
// goes to the next stage. Line breaks next to the markers belong to neither side.
#pragma once

#include <memory>
#include <string>

#include "server/answer_plan.h"
#include "server/answer_sink.h"

namespace octavo {

class ThinkReader final : public AnswerStage {
 public:
  ThinkReader(ThinkStart start, AnswerSink& sink, std::unique_ptr<AnswerStage> next);
  void push(std::string_view text) override;
  void finish() override;

 private:
  enum class At { start, inside, gap, after };

  bool read_start();
  bool read_inside();
  void reason(std::string_view text);

  AnswerSink& sink_;
  std::unique_ptr<AnswerStage> next_;
  At at_;
  bool begun_ = false;  // some reasoning was given out
  std::string held_;
};

}  // namespace octavo
