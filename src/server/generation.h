// Generation: one request of a generating route while the engine works on it: reads the streams of its prompts, turns
// tokens into text and text into chunks or a whole answer, and ends in exactly one way: a whole answer, a stream with
// its [DONE], an error, or a client that has gone. Ending frees the engine's pages within a step.
//
// A reader that is slow gets what has come since as one chunk a choice; nothing is dropped, and little is kept: tokens
// wait in the engine's queues until the socket takes more.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/text_stream.h"
#include "server/answer_form.h"
#include "server/errors.h"
#include "server/exchange.h"
#include "server/generation_spec.h"
#include "server/service.h"
#include "server/wakeups.h"

namespace octavo {

class Generation final : public ExchangeListener, public Wakeable, public std::enable_shared_from_this<Generation> {
 public:
  using Clock = std::chrono::steady_clock;
  using MakeForm = std::unique_ptr<AnswerForm> (*)(FormFacts);

  // Answers the exchange itself when the engine refuses. prompt_field: what a refusal of the prompt blames.
  static void start(Service& service, std::shared_ptr<Exchange> exchange, GenerationSpec spec, MakeForm make_form,
                    const char* prompt_field, Clock::time_point arrival);

  Generation(Service& service, std::shared_ptr<Exchange> exchange, GenerationSpec spec, Clock::time_point arrival);

  void woken() override;
  void drained() override { woken(); }
  void tick(Clock::time_point now) override;
  void client_gone() override;
  // From outside: an operator, a time limit, the end of the server.
  void stop(const ApiError& error, const char* reason) { fail(error, reason); }

 private:
  static double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

  struct Choice {
    std::unique_ptr<AnswerReader> reader;
    Piece piece;  // what the client has not been told
    bool begun = false;
    bool ended = false;
    bool called_tools = false;
    bool broken_call = false;
    std::int64_t num_tokens = 0;
    double queued = 0;
    Clock::time_point first_token, last_token;
  };
  struct Prompt {
    std::unique_ptr<TextStream> text;
    bool waits = true;  // its tokens count as queued
  };

  std::optional<ApiError> refuse(std::int64_t prompt_tokens) const;
  std::optional<ApiError> submit(const char* prompt_field);
  std::string caller() const;
  void look();
  bool collect();
  void take(std::size_t prompt, TextEvent& event);
  void begin_choice(std::size_t prompt, Choice& choice, TokenEvent& event);
  void take_token(Choice& choice, TokenEvent& event);
  void read_text(std::size_t prompt, Choice& choice, TextEvent& event);
  void end_choice(std::size_t prompt, Choice& choice, const TextEvent& event);
  void write_news();
  void send(std::string_view events);
  void finish();
  void fail(const ApiError& error, const char* reason = nullptr);
  void let_go(const char* reason);  // of the engine and the service's books
  Usage usage() const;
  bool wants_tokens() const { return spec_.logprobs || spec_.return_token_ids; }

  Service& service_;
  std::shared_ptr<Exchange> exchange_;
  GenerationSpec spec_;
  std::vector<std::int64_t> prompt_sizes_;
  std::unique_ptr<AnswerForm> form_;
  std::vector<Prompt> prompts_;
  std::vector<Choice> choices_;
  std::int64_t cached_tokens_ = 0;
  std::size_t num_ended_ = 0;
  std::optional<ApiError> failure_;
  const Clock::time_point arrival_;
  Clock::time_point last_sent_, last_looked_;
  bool over_ = false;
};

}  // namespace octavo
