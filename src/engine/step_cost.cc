#include "engine/step_cost.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

namespace octavo {
namespace {

constexpr double kFading = 0.99;        // of a step's weight with each later one
constexpr double kExcessFading = 0.95;  // of what predictions were too low by
constexpr double kMostExcess = 0.5;
constexpr double kCaution = 2;       // so many times the excess is left free
constexpr double kFirstTokens = 16;  // are tried when nothing is known

// What cannot be told apart yet is laid to the tokens rather than to the constant: that errs on the side of short
// steps.
constexpr std::array<double, StepCost::kParts> kDoubt = {1e-4, 1e-4, 1e-4, 1e-6, 1e-5};

using Matrix = std::array<std::array<double, StepCost::kParts>, StepCost::kParts>;
using Vector = std::array<double, StepCost::kParts>;

// Solves for the chosen parts, the others being 0, by Cholesky's decomposition. nullopt: they determine nothing.
std::optional<Vector> solve(const Matrix& products, const Vector& sums, std::span<const int> chosen) {
  Matrix lower{};
  Vector half{};
  const auto size = chosen.size();
  for (std::size_t i = 0; i < size; ++i) {
    const auto row = static_cast<std::size_t>(chosen[i]);
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = products[row][static_cast<std::size_t>(chosen[j])] * (i == j ? 1 + kDoubt[row] : 1);
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      if (i == j && sum <= 0) return std::nullopt;
      lower[i][j] = i == j ? std::sqrt(sum) : sum / lower[j][j];
    }
    half[i] = sums[row];
    for (std::size_t k = 0; k < i; ++k) half[i] -= lower[i][k] * half[k];
    half[i] /= lower[i][i];
  }
  Vector result{};
  for (std::size_t i = size; i-- > 0;) {
    double sum = half[i];
    for (std::size_t k = i + 1; k < size; ++k) sum -= lower[k][i] * result[static_cast<std::size_t>(chosen[k])];
    result[static_cast<std::size_t>(chosen[i])] = sum / lower[i][i];
  }
  return result;
}

// The squares that a solution leaves, but for a constant.
double left_over(const Matrix& products, const Vector& sums, const Vector& cost) {
  double total = 0;
  for (std::size_t i = 0; i < cost.size(); ++i) {
    double product = 0;
    for (std::size_t j = 0; j < cost.size(); ++j) product += products[i][j] * cost[j] * (i == j ? 1 + kDoubt[i] : 1);
    total += cost[i] * (product - 2 * sums[i]);
  }
  return total;
}

}  // namespace

void StepLoad::add_decode(int context) {
  decodes += 1;
  decode_context += context;
}

void StepLoad::add_prompt(int first, int count) {
  prompt_tokens += count;
  prompt_pairs += static_cast<double>(count) * (first + 0.5 * (count + 1));
}

// Contexts in thousands, so that all parts are numbers of about the same size.
StepCost::Parts StepCost::parts_of(const StepLoad& load) {
  return {1, load.decodes, load.decode_context / 1000, load.prompt_tokens, load.prompt_pairs / 1000};
}

double StepCost::milliseconds(const StepLoad& load) const {
  const Parts parts = parts_of(load);
  double sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) sum += parts[i] * cost_[i];
  return sum;
}

// What is made small is the error as a share of the step, or the longest steps alone would count.
void StepCost::observe(const StepLoad& load, double milliseconds) {
  if (milliseconds <= 0) return;
  if (const double predicted = this->milliseconds(load); predicted > 0) {
    const double excess = std::clamp(milliseconds / predicted - 1, 0.0, kMostExcess);
    excess_ = kExcessFading * excess_ + (1 - kExcessFading) * excess * excess;
  }
  most_tried_ = std::max(most_tried_, load.prompt_tokens);
  Parts parts = parts_of(load);
  for (double& part : parts) part /= milliseconds;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = 0; j < parts.size(); ++j) products_[i][j] = kFading * products_[i][j] + parts[i] * parts[j];
    sums_[i] = kFading * sums_[i] + parts[i];
  }
  fit();
}

// Least squares without negative parts: few enough that every choice of those above zero can be tried.
void StepCost::fit() {
  double best = 0;
  for (unsigned choice = 1; choice < 1u << kParts; ++choice) {
    std::array<int, kParts> chosen{};
    std::size_t size = 0;
    for (int part = 0; part < kParts; ++part)
      if ((choice >> part & 1u) != 0) chosen[size++] = part;
    const auto cost = solve(products_, sums_, std::span(chosen).first(size));
    if (!cost || std::any_of(cost->begin(), cost->end(), [](double x) { return x < 0; })) continue;
    const double left = left_over(products_, sums_, *cost);
    if (left >= best) continue;
    best = left;
    cost_ = *cost;
  }
}

int StepCost::most_tokens(const StepLoad& load, int first, int wanted, double milliseconds) const {
  const double tried = std::max(kFirstTokens, 2 * most_tried_) - load.prompt_tokens;
  int fits = 0;
  for (int beyond = std::max(0, static_cast<int>(std::min<double>(wanted, tried))) + 1; fits + 1 < beyond;) {
    const int tokens = fits + (beyond - fits) / 2;
    StepLoad more = load;
    more.add_prompt(first, tokens);
    const bool short_enough = this->milliseconds(more) * (1 + kCaution * std::sqrt(excess_)) <= milliseconds;
    (short_enough ? fits : beyond) = tokens;
  }
  return fits;
}

}  // namespace octavo
