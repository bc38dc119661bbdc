// Rendezvous: a place where a fixed number of threads meet again and again.
//
// What each did before a meeting is seen by all after it. Those who wait spin for some microseconds, then sleep. Who
// cannot come says so, and from then on nobody waits: every meeting is off until restore().
#pragma once

#include <atomic>
#include <cstdint>

namespace octavo {

class Rendezvous {
 public:
  explicit Rendezvous(int size);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  bool meet();  // true: all have come; false: the meeting is off
  void give_up();
  // Meetings take place again. Not while a thread is in meet() or may come to it.
  void restore();

 private:
  const int size_;
  std::atomic<std::uint32_t> round_{0};
  std::atomic<int> come_{0};
  std::atomic<bool> off_{false};
};

}  // namespace octavo
