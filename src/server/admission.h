// Admission: how much work the server takes on, and what it says to the rest: 429 with a Retry-After from the measured
// rate. Counts continuations from the moment a request's body is there, so that a burst is turned away at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "server/errors.h"

namespace octavo {

struct AdmissionLimits {
  int max_running = 64;                // places in a step
  int max_queued = 1024;               // continuations beyond those
  std::int64_t max_queued_tokens = 0;  // prompt tokens of requests without a first token; 0: no limit
};

class Admission {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // A request of so many continuations that nobody has counted yet; engine_waiting: continuations that the engine has
  // not let in.
  std::optional<ApiError> refuse(int continuations, int engine_waiting) const;
  std::optional<ApiError> refuse_tokens(std::int64_t prompt_tokens) const;

  void enter(int continuations) { in_flight_ += continuations; }
  void leave(int continuations) { in_flight_ -= continuations; }
  void prepare(int change) { preparing_ += change; }
  void queue_tokens(std::int64_t change) { queued_tokens_ += change; }
  void finished(Clock::time_point now);  // a continuation, for the rate

  int in_flight() const { return in_flight_; }  // continuations, the ones being prepared counted as one a request
  int preparing() const { return preparing_; }
  std::int64_t queued_tokens() const { return queued_tokens_; }
  int retry_after(Clock::time_point now) const;  // seconds

 private:
  AdmissionLimits limits_;
  int in_flight_ = 0;
  int preparing_ = 0;
  std::int64_t queued_tokens_ = 0;
  std::deque<Clock::time_point> ends_;  // of the last answers
};

}  // namespace octavo
