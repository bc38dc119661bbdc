// Budget: what one rendering may still spend, and the failure that ends it.
//
// Every evaluated node and every handled element or block of bytes costs a step; everything on the template's heap is
// counted while it lives; nesting is counted on the way down. A hostile template therefore ends in bounded time, memory
// and stack. Failure is thrown inside this folder only: ChatTemplate turns it into an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace octavo::jinja {

struct Failure {
  std::string message;
  int line = 0;              // 0: where the interpreter stands
  bool by_template = false;  // raise_exception: the message is the template author's, shown as it is
};

[[noreturn]] void fail(std::string message);

class Budget {
 public:
  Budget(std::int64_t max_steps, std::size_t max_memory_bytes, int max_depth)
      : max_steps_(max_steps), max_memory_bytes_(max_memory_bytes), max_depth_(max_depth) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void step(std::int64_t count = 1) {
    if ((steps_ += count) > max_steps_) fail_steps();
  }
  void scan(std::size_t num_bytes) { step(1 + static_cast<std::int64_t>(num_bytes / kBytesAStep)); }

  void take(std::size_t num_bytes) {
    if (num_bytes > max_memory_bytes_ - live_bytes_) fail_memory();
    live_bytes_ += num_bytes;
    scan(num_bytes);
  }
  void give_back(std::size_t num_bytes) { live_bytes_ -= num_bytes; }
  // Refuses bytes that could never be taken, before anybody makes them.
  void expect(std::size_t num_bytes) const {
    if (num_bytes > max_memory_bytes_ - live_bytes_) fail_memory();
  }

  void enter() {
    if (++depth_ > max_depth_) fail_depth();
  }
  void leave() { --depth_; }

 private:
  static constexpr std::size_t kBytesAStep = 256;
  [[noreturn]] void fail_steps() const;
  [[noreturn]] void fail_memory() const;
  [[noreturn]] void fail_depth() const;

  std::int64_t max_steps_;
  std::int64_t steps_ = 0;
  std::size_t max_memory_bytes_;
  std::size_t live_bytes_ = 0;
  int max_depth_;
  int depth_ = 0;
};

class DepthGuard {
 public:
  explicit DepthGuard(Budget& budget) : budget_(budget) { budget_.enter(); }
  ~DepthGuard() { budget_.leave(); }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Budget& budget_;
};

// Memory that is in use for a while, but belongs to no value.
class Reservation {
 public:
  Reservation(Budget& budget, std::size_t num_bytes) : budget_(budget) { grow(num_bytes); }
  Reservation(Reservation&& other) noexcept : budget_(other.budget_), num_bytes_(std::exchange(other.num_bytes_, 0)) {}
  ~Reservation() { budget_.give_back(num_bytes_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  void grow(std::size_t num_bytes) {
    budget_.take(num_bytes);
    num_bytes_ += num_bytes;
  }

 private:
  Budget& budget_;
  std::size_t num_bytes_ = 0;
};

// A string that grows under a budget: replace, join and format can make far more than they were given.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : held_(budget, 0) {}
  void append(std::string_view part) {
    held_.grow(part.size());
    text_ += part;
  }
  void repeat(std::string_view part, std::size_t count);
  std::size_t size() const { return text_.size(); }
  std::string take() { return std::move(text_); }

 private:
  Reservation held_;
  std::string text_;
};

}  // namespace octavo::jinja
