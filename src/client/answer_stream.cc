#include "client/answer_stream.h"

#include "base/json.h"
#include "base/strings.h"

namespace octavo {
namespace {

constexpr std::size_t kLongestAnswer = std::size_t{256} << 20;  // that is no stream

void append_text(std::string& text, const Json* value) {
  if (value != nullptr && value->is_string()) text += value->get_ref<const std::string&>();
}

AnswerUsage read_usage(const Json& usage) {
  const auto count = [](const Json& object, const char* key) {
    const auto found = find_int(object, key);
    return found ? found->value_or(0) : 0;
  };
  AnswerUsage result{.prompt_tokens = count(usage, "prompt_tokens"),
                     .completion_tokens = count(usage, "completion_tokens")};
  if (const Json* details = find_member(usage, "prompt_tokens_details"))
    result.cached_tokens = count(*details, "cached_tokens");
  return result;
}

void read_choice(const Json& choice, AnswerPiece& piece) {
  append_text(piece.content, find_member(choice, "text"));
  append_text(piece.finish, find_member(choice, "finish_reason"));
  const Json* delta = find_member(choice, "delta");
  if (delta == nullptr) delta = find_member(choice, "message");
  if (delta == nullptr) return;
  append_text(piece.content, find_member(*delta, "content"));
  const Json* reasoning = find_member(*delta, "reasoning_content");
  if (reasoning == nullptr) reasoning = find_member(*delta, "reasoning");
  append_text(piece.reasoning, reasoning);
  const Json* calls = find_member(*delta, "tool_calls");
  piece.calls_tool = calls != nullptr && calls->is_array() && !calls->empty();
}

}  // namespace

Result<AnswerPiece> read_answer_piece(std::string_view data) {
  OCTAVO_TRY(const Json json, parse_json(data, "an event of the answer"));
  AnswerPiece piece;
  if (find_member(json, "error") != nullptr) {
    piece.error = error_message(std::string(data));
    if (piece.error.empty()) piece.error = "the server names no reason";
    return piece;
  }
  if (const Json* choices = find_member(json, "choices"); choices != nullptr && choices->is_array())
    for (const Json& choice : *choices) {
      const auto index = find_int(choice, "index");
      if (!index || index->value_or(0) == 0) read_choice(choice, piece);
    }
  if (const Json* usage = find_member(json, "usage"); usage != nullptr && usage->is_object())
    piece.usage = read_usage(*usage);
  return piece;
}

void AnswerStream::take(std::string_view data) {
  if (failure_) return;
  if (trim(data) == "[DONE]") {
    complete_ = true;
    return;
  }
  const Result<AnswerPiece> piece = read_answer_piece(data);
  if (!piece) {
    failure_ = piece.error();
  } else if (!piece->error.empty()) {
    failure_ = Error((begun_ ? "the answer broke off: " : "the server failed: ") + piece->error);
  } else {
    begun_ = begun_ || piece->says_something();
    complete_ = complete_ || !piece->finish.empty();
    on_piece_(*piece);
  }
}

void AnswerStream::on_body(std::string_view bytes) {
  const bool stream = reply_.head.status == 200 && lower(reply_.head.content_type).starts_with("text/event-stream");
  if (!stream) {
    if (reply_.body.size() + bytes.size() <= kLongestAnswer) reply_.body += bytes;
  } else if (!reader_.feed(bytes, [this](std::string_view data) { take(data); }) && !failure_) {
    failure_ = Error("the answer has an event without end");
  }
}

Status AnswerStream::outcome(const Status& status) const {
  if (failure_) return *failure_;
  if (!status && begun_ && !complete_)
    return Error("the answer broke off: " + status.error().message(), status.error().kind());
  if (!status && !complete_) return status;
  if (!complete_) return Error("the answer broke off: its stream ended without saying that it was complete");
  return {};
}

void AnswerStream::on_end(const Status& status) {
  if (status && reply_.head.status != 200) return over_(refusal(reply_));
  if (status && !reply_.body.empty()) take(reply_.body);
  over_(outcome(status));
}

}  // namespace octavo
