// Inbox: how other threads reach the engine's. Bounded: a request that would make more than max_queued continuations
// wait is refused. In order of arrival.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/sequence.h"

namespace octavo {

// One thing to do for the loop.
struct InboxItem {
  std::vector<std::shared_ptr<Sequence>> sequences;
  int needs_rows = 0;  // rows of logits that a step must have room for
  bool forget_prefixes = false;
};

class Inbox {
 public:
  explicit Inbox(int max_queued) : max_queued_(max_queued) {}

  // Refused when closed (with the reason it was closed for) or full.
  Status put(InboxItem item);
  // Another number for each request, from 0.
  std::uint64_t next_number();

  // The loop's end. Waits for something to do if `idle`; false: closed without a reason, time to go.
  bool take(std::vector<InboxItem>& items, bool idle);
  void set_waiting(int waiting);  // continuations that the scheduler has not let in yet
  int queued() const;
  void close(std::string reason);  // empty: the engine goes away
  bool closed() const;
  Status state() const;  // an error with the reason when closed

 private:
  Error refusal() const;

  const int max_queued_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<InboxItem> items_;
  std::uint64_t numbers_ = 0;
  int arrived_ = 0;  // continuations in items_
  int waiting_ = 0;
  bool closed_ = false;
  std::string reason_;
};

}  // namespace octavo
