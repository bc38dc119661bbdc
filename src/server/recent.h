// Recent: the last quarter of an hour in steps of five seconds: how long tokens took, how many came, who ran and
// waited. So curves are there as soon as somebody looks. Bounded memory; quantiles are right within 5%. For the event
// loop's thread alone.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/json.h"
#include "engine/engine.h"

namespace octavo {

// How often which duration was seen, in buckets whose edges are a twelfth of a doubling apart.
class DurationSpread {
 public:
  void observe(double seconds);
  void clear();
  std::optional<double> quantile(double share) const;  // none when nothing was seen

 private:
  static constexpr int kPerDoubling = 12;
  static constexpr double kLeast = 1e-5;                   // seconds; what is shorter counts as this
  std::array<std::uint32_t, 28 * kPerDoubling> counts_{};  // up to 45 minutes; what is longer counts as that
  std::uint64_t total_ = 0;
};

class Recent {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kStep{5};
  static constexpr std::size_t kSteps = 180;

  explicit Recent(Clock::time_point now) : step_began_(now) {}

  void first_token(double seconds) { first_.observe(seconds); }
  void next_token(double seconds) { next_.observe(seconds); }

  // To be called more often than once a step; `waiting` are the requests that wait anywhere.
  void tick(Clock::time_point now, const EngineStats& stats, int waiting);
  std::string text() const;  // JSON, the oldest step first

 private:
  OrderedJson row(double seconds, const EngineStats& stats, std::uint64_t computed, int waiting) const;

  DurationSpread first_, next_;
  std::deque<std::string> rows_;  // written once: to be asked costs no more than to copy them
  Clock::time_point step_began_;
  std::uint64_t generated_ = 0, computed_ = 0;  // when the step began
};

}  // namespace octavo
