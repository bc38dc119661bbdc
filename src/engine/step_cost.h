// StepCost: how long a step will take, learned from the steps that were: a constant, a part for each sequence that
// decodes and for the context it looks back on, a part for each token of a prompt and for each pair of such a token and
// one before it. No part is ever negative. Later steps count more, so that it follows a machine that slows down.
//
// Promises: `most_tokens` asks for no more than twice what was tried before, so that the first guesses cannot be far
// off, and leaves room for twice as much as the last predictions were too low. It knows no clock: who measures tells.
#pragma once

#include <array>

namespace octavo {

// What a step computes.
struct StepLoad {
  double decodes = 0;         // sequences of one token
  double decode_context = 0;  // tokens that those look back on, in sum
  double prompt_tokens = 0;
  double prompt_pairs = 0;  // (token of a prompt, token it looks back on)

  void add_decode(int context);
  void add_prompt(int first, int count);
};

class StepCost {
 public:
  static constexpr int kParts = 5;

  void observe(const StepLoad& load, double milliseconds);
  double milliseconds(const StepLoad& load) const;  // 0 before anything was observed
  // Tokens of a prompt from `first` on that can join `load` so that the step takes at most so long; perhaps none.
  int most_tokens(const StepLoad& load, int first, int wanted, double milliseconds) const;

 private:
  using Parts = std::array<double, kParts>;
  static Parts parts_of(const StepLoad& load);
  void fit();

  std::array<Parts, kParts> products_{};  // sums over the steps, older ones faded
  Parts sums_{};
  Parts cost_{};           // milliseconds of each part
  double excess_ = 0;      // mean square of how much too low predictions were, as shares
  double most_tried_ = 0;  // tokens of prompts in one step
};

}  // namespace octavo
