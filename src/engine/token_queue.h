// TokenQueue: the meeting place of the engine's thread and one reader of a request: events one way, cancellation the
// other. It outlives both ends. It holds at most n * (max_tokens + 1) events, so it needs no other bound; for readers
// that are slow a mere token takes 16 bytes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/request.h"
#include "engine/token_stream.h"

namespace octavo {

class TokenQueue {
 public:
  explicit TokenQueue(int num_continuations);

  // The engine's end. Events of a continuation that has finished are dropped. An event that no memory can be found for
  // fails its continuation.
  void push(TokenEvent event);
  bool cancelled(int index) const {
    return cancelled_[static_cast<std::size_t>(index)].load(std::memory_order_relaxed);
  }

  // The reader's end.
  std::optional<TokenEvent> next(std::optional<std::chrono::steady_clock::time_point> deadline, bool& timed_out);
  void on_event(std::function<void()> wake);  // empty: nobody any more
  void cancel();
  void cancel_index(int index);

 private:
  struct Entry {
    std::int32_t token = 0;
    int index = 0;  // kWhole: it is the next of whole_
    std::chrono::steady_clock::time_point when;
  };
  void keep(TokenEvent event);
  TokenEvent take();

  std::vector<std::atomic<bool>> cancelled_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  std::deque<TokenEvent> whole_;  // those that are more than a token
  std::function<void()> wake_;
  std::vector<bool> finished_;  // by the engine
  std::vector<bool> lost_;      // finished without an event: memory ran out
  int open_ = 0;                // continuations whose last event the reader has not taken
};

// The reader's end as an object: dropping it cancels.
std::unique_ptr<TokenStream> make_token_stream(std::shared_ptr<TokenQueue> queue);

}  // namespace octavo
