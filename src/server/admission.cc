#include "server/admission.h"

#include <algorithm>
#include <cmath>

namespace octavo {
namespace {

constexpr std::size_t kEnds = 64;
constexpr double kWindowSeconds = 60;
constexpr int kLongestWait = 60;

}  // namespace

std::optional<ApiError> Admission::refuse(int continuations, int engine_waiting) const {
  const int places = limits_.max_running + limits_.max_queued;
  if (continuations > places)
    return ApiError{.message = "this request asks for " + std::to_string(continuations) +
                               " answers at once; the server has places for " + std::to_string(places),
                    .param = "n"};
  const bool full = in_flight_ + continuations > places;
  if (!full && engine_waiting + continuations <= limits_.max_queued) return std::nullopt;
  if (!full && engine_waiting == 0) return std::nullopt;  // nobody waits: it will run at once
  return ApiError{
      .status = 429,
      .message = "the queue is full: " + std::to_string(in_flight_) + " answers are in work or wait; try again later",
      .retry_after = retry_after(Clock::now())};
}

std::optional<ApiError> Admission::refuse_tokens(std::int64_t prompt_tokens) const {
  if (limits_.max_queued_tokens <= 0 || queued_tokens_ == 0) return std::nullopt;
  if (queued_tokens_ + prompt_tokens <= limits_.max_queued_tokens) return std::nullopt;
  return ApiError{.status = 429,
                  .message = "the queue is full: prompts of " + std::to_string(queued_tokens_) +
                             " tokens wait, and at most " + std::to_string(limits_.max_queued_tokens) +
                             " may; try again later",
                  .retry_after = retry_after(Clock::now())};
}

void Admission::finished(Clock::time_point now) {
  ends_.push_back(now);
  if (ends_.size() > kEnds) ends_.pop_front();
}

// One place becomes free with each answer that ends: the mean time between two of the last ends, at least a second.
int Admission::retry_after(Clock::time_point now) const {
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  const auto recent =
      std::find_if(ends_.begin(), ends_.end(), [&](auto end) { return seconds(now - end) < kWindowSeconds; });
  const auto count = static_cast<double>(ends_.end() - recent);
  if (count == 0) return 5;
  const double each = std::max(seconds(now - *recent), 0.001) / count;
  const int waiting = std::max(1, in_flight_ - limits_.max_running);
  return std::clamp(static_cast<int>(std::ceil(each * waiting)), 1, kLongestWait);
}

}  // namespace octavo
