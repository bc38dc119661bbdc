// CostModel: milliseconds of one decoded token as a function of the context it looks back on: a line, fitted by least
// squares to what was measured. The intercept is what every token costs, the slope what each token of context adds.
//
// A line needs two different contexts: with fewer there is none.
#pragma once

#include <optional>
#include <span>

namespace octavo {

struct CostPoint {
  double context = 0;  // tokens
  double itl_ms = 0;   // mean time between two tokens
};

struct CostModel {
  double intercept_ms = 0;
  double slope_ms_per_token = 0;

  double itl_ms(double context) const { return intercept_ms + slope_ms_per_token * context; }
};

std::optional<CostModel> fit_cost(std::span<const CostPoint> points);

// The least context from which on `other` never costs more than `base`; nullopt if there is none.
std::optional<double> break_even_tokens(const CostModel& base, const CostModel& other);

}  // namespace octavo
