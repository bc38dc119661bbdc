// VerbTimeline: what the verbs of a backend did, step by step: which, on what, when, how many bytes each had to move at
// least (every operand once), and how many products and sums matrices and attention take. Filled by TimedBackend, read
// when nothing runs any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/device.h"

namespace octavo {

struct VerbCall {
  const char* verb = "";
  double begin_ms = 0;  // since the timeline was made
  double end_ms = 0;
  std::int64_t bytes = 0;
  std::int64_t operations = 0;  // two for each number of a matrix and row, or of K and V and query; others count none
  std::string kind = {};        // "960 x 576 q4_1", "window 128": tells layers of different kinds apart
};

struct StepCalls {
  int num_tokens = 0;
  int num_decodes = 0;  // sequences of one token
  int max_context = 0;
  std::vector<VerbCall> calls;

  bool decode() const { return num_tokens == num_decodes; }
};

// One verb on one kind of operands, in steps of one kind: medians over the steps of its sums in each.
struct VerbSummary {
  std::string verb;
  std::string kind;
  int calls = 0;
  double ms = 0;
  std::int64_t bytes = 0;
  std::int64_t operations = 0;
};

struct StepSummary {
  int num_steps = 0;
  int num_tokens = 0;  // of the last one
  int max_context = 0;
  double ms = 0;                   // from the first verb's begin to the last one's end
  double gaps_ms = 0;              // the part of it in which no verb ran
  std::int64_t bytes = 0;          // of all verbs
  std::vector<VerbSummary> verbs;  // the longest first
};

// steps: of one kind, at least one.
StepSummary summarise(const std::vector<StepCalls>& steps);

class VerbTimeline {
 public:
  // A step begins with its first plan_attention.
  void begin_step(int num_tokens, int num_decodes, int max_context);
  double now_ms() const;
  void add(VerbCall call);
  // Adds the call that `work` makes, from the end of all that the device had to do before to the end of its own.
  template <class Work>
  void time(Device& device, VerbCall call, const Work& work) {
    device.synchronize();
    call.begin_ms = now_ms();
    work();
    device.synchronize();
    call.end_ms = now_ms();
    add(std::move(call));
  }
  bool planning() const;  // the step has no verbs yet but plan_attention
  void clear() { steps_.clear(); }
  const std::vector<StepCalls>& steps() const { return steps_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<StepCalls> steps_;
};

}  // namespace octavo
