#include "tool/verb_timeline.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/check.h"
#include "terminal/statistics.h"

namespace octavo {
namespace {

struct Sums {
  int calls = 0;
  double ms = 0;
  std::int64_t bytes = 0;
};

std::map<std::string, Sums> sums_of(const StepCalls& step) {
  std::map<std::string, Sums> sums;
  for (const VerbCall& call : step.calls) {
    Sums& sum = sums[call.verb];
    ++sum.calls;
    sum.ms += call.end_ms - call.begin_ms;
    sum.bytes += call.bytes;
  }
  return sums;
}

}  // namespace

StepSummary summarise(const std::vector<StepCalls>& steps) {
  check(!steps.empty(), "at least one step");
  std::vector<double> whole;
  std::vector<double> gaps;
  std::map<std::string, std::vector<double>> ms;
  std::map<std::string, std::vector<double>> bytes;
  std::map<std::string, int> calls;
  for (const StepCalls& step : steps) {
    double busy = 0;
    for (const auto& [verb, sum] : sums_of(step)) {
      ms[verb].push_back(sum.ms);
      bytes[verb].push_back(static_cast<double>(sum.bytes));
      calls[verb] = sum.calls;
      busy += sum.ms;
    }
    whole.push_back(step.calls.empty() ? 0 : step.calls.back().end_ms - step.calls.front().begin_ms);
    gaps.push_back(whole.back() - busy);
  }
  StepSummary summary{.num_steps = static_cast<int>(steps.size()),
                      .num_tokens = steps.back().num_tokens,
                      .max_context = steps.back().max_context,
                      .ms = median(whole),
                      .gaps_ms = median(gaps),
                      .verbs = {}};
  for (const auto& [verb, times] : ms)
    summary.verbs.push_back({verb, calls[verb], median(times), static_cast<std::int64_t>(median(bytes[verb]))});
  std::sort(summary.verbs.begin(), summary.verbs.end(),
            [](const VerbSummary& a, const VerbSummary& b) { return a.ms > b.ms; });
  return summary;
}

void VerbTimeline::begin_step(int num_tokens, int num_decodes, int max_context) {
  steps_.push_back({num_tokens, num_decodes, max_context, {}});
}

bool VerbTimeline::planning() const {
  if (steps_.empty()) return false;
  const auto& calls = steps_.back().calls;
  return std::all_of(calls.begin(), calls.end(),
                     [](const VerbCall& call) { return std::string_view(call.verb) == "plan_attention"; });
}

double VerbTimeline::now_ms() const {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
}

void VerbTimeline::add(const char* verb, double begin_ms, double end_ms, std::int64_t bytes) {
  if (!steps_.empty()) steps_.back().calls.push_back({verb, begin_ms, end_ms, bytes});
}

}  // namespace octavo
