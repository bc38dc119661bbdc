// CallReader: content with calls of tools in it, by the marks of a CallSyntax. What begins like a call and is none is
// content; a call inside of that is still found. What follows where a call breaks off is content too.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer_sink.h"
#include "server/tool_parsers/call_syntax.h"

namespace octavo {

class CallReader final : public AnswerStage {
 public:
  CallReader(CallSyntax syntax, AnswerSink& sink);
  void push(std::string_view text) override;
  void finish() override;

 private:
  enum class At { beginning, text, call, behind };

  bool read_beginning();
  bool read_text();
  bool read_call();
  bool read_behind();
  void begin_call(std::string_view opener, std::size_t skip);
  void give_up_call();
  void give_out_call();
  void end_call();
  bool ends_call(std::string_view text) const;
  std::size_t behind_space() const;  // white space, and what else may stand between calls

  std::string_view rest() const { return std::string_view(held_).substr(from_); }

  CallSyntax syntax_;
  std::vector<std::string_view> openers_;  // of syntax_
  AnswerSink& sink_;
  At at_;
  std::string held_;
  std::size_t from_ = 0;    // where the rest of held_ begins that is still to be read
  std::size_t fed_ = 0;     // letters of the rest that the parser has had, or passed by
  std::size_t opener_ = 0;  // of the rest: the mark that began the call
  std::size_t closer_ = 0;  // the next closer that may come
  std::size_t reread_ = 0;  // letters that were looked at again
  std::unique_ptr<CallParser> parser_;
  bool given_ = false;  // the sink knows of this call
};

}  // namespace octavo
