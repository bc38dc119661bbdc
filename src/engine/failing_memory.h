// For tests: makes one allocation of this thread fail. The test program's operator new is its own for this
// (failing_memory_test.cc).
#pragma once

namespace octavo {

class FailingMemory {
 public:
  // Of the allocations made while armed, so many succeed and the next one throws std::bad_alloc; then all succeed.
  explicit FailingMemory(int allowed) : allowed_(allowed) {}
  ~FailingMemory() { disarm(); }
  void arm();
  void disarm();

 private:
  int allowed_ = 0;
};

}  // namespace octavo
