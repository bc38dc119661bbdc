// What a row of logits says, in nats and in double: how unlikely a token was, and how far two distributions are apart.
//
// Nothing cancels: a divergence of 1e-12 comes out as exactly as one of 1. A row that is not finite throughout gives
// NaN.
#pragma once

#include <cstdint>
#include <span>

namespace octavo {

// -log softmax(logits)[id].
double negative_log_likelihood(std::span<const float> logits, std::int32_t id);

struct Divergence {
  double kl = 0;  // sum of p log(p / q), p = softmax(reference), q = softmax(other)
  bool same_best = false;
};
Divergence divergence(std::span<const float> reference, std::span<const float> other);

}  // namespace octavo
