// TokenStream: where the engine's thread puts what happened to a request and one reader takes it.
// Closing or dropping the reader's end cancels the request: its pages are free after the step in progress.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "engine/request.h"

namespace octavo {

class TokenStream {
 public:
  // Waits for the next event; nullopt when every continuation has finished.
  virtual std::optional<TokenEvent> next() = 0;
  // The same without waiting longer than this; `timed_out` tells nothing-yet from finished.
  virtual std::optional<TokenEvent> next_for(std::chrono::milliseconds limit, bool& timed_out) = 0;
  // Many streams, one reader: `wake` runs whenever events have come, and now if some are there already; never after the
  // stream was dropped. It runs on the engine's thread: it must be short, must not throw, and must not touch the
  // stream.
  virtual void on_event(std::function<void()> wake) = 0;
  virtual void cancel() = 0;                 // all continuations
  virtual void cancel_index(int index) = 0;  // one of the n (a stop string was seen)
  virtual ~TokenStream() = default;
};

}  // namespace octavo
