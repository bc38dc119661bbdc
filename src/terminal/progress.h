// Progress of many equal pieces of work, for a person who waits: a bar that is redrawn in place on a terminal, a line
// every ten percent elsewhere. On stderr; a few times a second at most.
#pragma once

#include <chrono>
#include <string>

namespace octavo {

class Progress {
 public:
  Progress(std::string what, int total, bool shown);

  void advance(int done, const std::string& note);  // done so far, and what else is worth knowing: "12.3 tok/s"
  void finish();                                    // leaves the last state on a line of its own

  // "requests [######----] 6/10 note", `width` columns of bar.
  static std::string line(const std::string& what, int done, int total, int width, const std::string& note);

 private:
  std::string what_;
  int total_;
  bool shown_;
  bool terminal_;
  int tenths_ = 0;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace octavo
