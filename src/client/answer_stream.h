// AnswerStream: a streamed answer of chat or completions, as pieces of text, and how it ended. It has ended well only
// if it said so (a finish_reason or [DONE]): a stream that just stops, breaks or carries an error is an error, however
// much text came before. A server that answers whole where a stream was asked for gives one piece.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "client/api.h"
#include "client/sse_reader.h"

namespace octavo {

struct AnswerUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
};

struct AnswerPiece {
  std::string content;    // of the first choice
  std::string reasoning;  // thinking, where the server tells it apart
  bool calls_tool = false;
  std::string finish = {};  // "stop", "length", ...
  std::optional<AnswerUsage> usage = {};
  std::string error = {};  // the answer has failed

  bool says_something() const { return !content.empty() || !reasoning.empty() || calls_tool; }
};

// One event's data. An error: it is not what such servers send.
Result<AnswerPiece> read_answer_piece(std::string_view data);

class AnswerStream final : public CallListener {
 public:
  using OnPiece = std::function<void(const AnswerPiece&)>;
  using OnEnd = std::function<void(const Status&)>;
  AnswerStream(OnPiece on_piece, OnEnd on_end) : on_piece_(std::move(on_piece)), over_(std::move(on_end)) {}

  void on_head(const ReplyHead& head) override { reply_.head = head; }
  void on_body(std::string_view bytes) override;
  void on_end(const Status& status) override;

 private:
  void take(std::string_view data);
  Status outcome(const Status& status) const;

  OnPiece on_piece_;
  OnEnd over_;
  Reply reply_;  // its body where it is no stream
  SseReader reader_;
  bool begun_ = false;
  bool complete_ = false;
  std::optional<Error> failure_;
};

}  // namespace octavo
