// ThreadClock: processor time of the calling thread, added up between start() and stop(): waiting costs none.
#pragma once

#include <time.h>

namespace octavo {

class ThreadClock {
 public:
  void start() { begin_ = now(); }
  void stop() { seconds_ += now() - begin_; }
  double seconds() const { return seconds_; }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double begin_ = 0;
  double seconds_ = 0;
};

}  // namespace octavo
