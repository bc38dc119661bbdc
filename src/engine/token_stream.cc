#include "engine/token_stream.h"

#include <new>
#include <utility>

#include "engine/token_queue.h"

namespace octavo {
namespace {

constexpr int kWhole = -1;

bool is_mere_token(const TokenEvent& event) {
  return event.token && !event.logprobs && !event.finish && !event.stop_token && event.failure.empty() &&
         event.prompt_logprobs.empty() && event.cached_tokens == 0 && event.queue_seconds == 0;
}

}  // namespace

TokenQueue::TokenQueue(int num_continuations)
    : cancelled_(static_cast<std::size_t>(num_continuations)),
      finished_(static_cast<std::size_t>(num_continuations)),
      lost_(static_cast<std::size_t>(num_continuations)),
      open_(num_continuations) {}

// Throws where there is no memory, and has then kept nothing.
void TokenQueue::keep(TokenEvent event) {
  if (is_mere_token(event)) {
    entries_.push_back({*event.token, event.index, event.when});
    return;
  }
  whole_.push_back(std::move(event));
  try {
    entries_.push_back({.token = 0, .index = kWhole, .when = {}});
  } catch (const std::bad_alloc&) {
    whole_.pop_back();
    throw;
  }
}

TokenEvent TokenQueue::take() {
  const Entry entry = entries_.front();
  entries_.pop_front();
  TokenEvent event;
  if (entry.index == kWhole) {
    event = std::move(whole_.front());
    whole_.pop_front();
  } else {
    event.token = entry.token;
    event.index = entry.index;
    event.when = entry.when;
  }
  return event;
}

void TokenQueue::push(TokenEvent event) {
  {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(event.index);
    if (finished_[index]) return;
    finished_[index] = event.finish.has_value();
    event.when = std::chrono::steady_clock::now();
    try {
      keep(std::move(event));
    } catch (const std::bad_alloc&) {
      finished_[index] = true;
      lost_[index] = true;
      cancelled_[index].store(true, std::memory_order_relaxed);
    }
    if (wake_) wake_();
  }
  changed_.notify_all();
}

std::optional<TokenEvent> TokenQueue::next(std::optional<std::chrono::steady_clock::time_point> deadline,
                                           bool& timed_out) {
  std::unique_lock lock(mutex_);
  timed_out = false;
  for (;;) {
    if (!entries_.empty()) {
      TokenEvent event = take();
      if (event.finish) --open_;
      return event;
    }
    if (open_ == 0) return std::nullopt;
    for (std::size_t i = 0; i < lost_.size(); ++i) {
      if (!lost_[i]) continue;
      lost_[i] = false;
      --open_;
      TokenEvent event;
      event.index = static_cast<int>(i);
      event.finish = FinishReason::failed;
      event.failure = "out of memory";
      return event;
    }
    if (!deadline) {
      changed_.wait(lock);
      continue;
    }
    // A time that has passed is not waited for: that would give the processor away, thousands of times a step
    // where one thread looks at thousands of streams.
    timed_out = *deadline <= std::chrono::steady_clock::now();
    if (timed_out) return std::nullopt;
    changed_.wait_until(lock, *deadline);
  }
}

void TokenQueue::on_event(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
  if (wake_ && !entries_.empty()) wake_();
}

void TokenQueue::cancel() {
  for (auto& flag : cancelled_) flag.store(true, std::memory_order_relaxed);
}

void TokenQueue::cancel_index(int index) {
  if (index >= 0 && static_cast<std::size_t>(index) < cancelled_.size())
    cancelled_[static_cast<std::size_t>(index)].store(true, std::memory_order_relaxed);
}

namespace {

class QueueReader final : public TokenStream {
 public:
  explicit QueueReader(std::shared_ptr<TokenQueue> queue) : queue_(std::move(queue)) {}
  ~QueueReader() override {
    queue_->on_event({});
    queue_->cancel();
  }

  std::optional<TokenEvent> next() override {
    bool timed_out = false;
    return queue_->next(std::nullopt, timed_out);
  }
  std::optional<TokenEvent> next_for(std::chrono::milliseconds limit, bool& timed_out) override {
    return queue_->next(std::chrono::steady_clock::now() + limit, timed_out);
  }
  void on_event(std::function<void()> wake) override { queue_->on_event(std::move(wake)); }
  void cancel() override { queue_->cancel(); }
  void cancel_index(int index) override { queue_->cancel_index(index); }

 private:
  std::shared_ptr<TokenQueue> queue_;
};

}  // namespace

std::unique_ptr<TokenStream> make_token_stream(std::shared_ptr<TokenQueue> queue) {
  return std::make_unique<QueueReader>(std::move(queue));
}

}  // namespace octavo
