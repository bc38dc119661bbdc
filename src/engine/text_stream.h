// TextStream: tokens out, text out. Joins a TokenStream with incremental decoding and stop strings; runs in the
// reader's thread. Text is never split inside a character, and no part of a stop string leaks; a continuation that met
// one is cancelled at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/token_stream.h"
#include "text/tokenizer.h"

namespace octavo {

struct TextEvent {
  int index = 0;
  std::string text;                // may be empty: a token whose text is still held back
  std::vector<TokenEvent> tokens;  // the tokens behind this text, with their logprobs
  std::optional<FinishReason> finish;
  std::string failure;
  std::string stop_reason;  // the stop string that ended it, or empty
};

class TextStream {
 public:
  TextStream(std::unique_ptr<TokenStream> tokens, const Tokenizer& tokenizer, const SamplingParams& sampling,
             bool skip_special = true);
  ~TextStream();

  std::optional<TextEvent> next();
  // The same without waiting; `pending` tells nothing-yet from finished.
  std::optional<TextEvent> poll(bool& pending);
  void on_event(std::function<void()> wake);  // TokenStream's
  void cancel();
  void end(int index);  // cancels one continuation: nothing more of it is given out

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octavo
