#include "tool/verb_timeline.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "terminal/statistics.h"

namespace octavo {
namespace {

using VerbAndKind = std::pair<std::string, std::string>;

struct Sums {
  int calls = 0;
  double ms = 0;
  double bytes = 0;
  double operations = 0;
};

std::map<VerbAndKind, Sums> sums_of(const StepCalls& step) {
  std::map<VerbAndKind, Sums> sums;
  for (const VerbCall& call : step.calls) {
    Sums& sum = sums[{call.verb, call.kind}];
    ++sum.calls;
    sum.ms += call.end_ms - call.begin_ms;
    sum.bytes += static_cast<double>(call.bytes);
    sum.operations += static_cast<double>(call.operations);
  }
  return sums;
}

VerbSummary summarise_verb(const VerbAndKind& name, const std::vector<Sums>& steps) {
  const auto middle = [&](auto figure) {
    std::vector<double> values;
    for (const Sums& sums : steps) values.push_back(figure(sums));
    return median(values);
  };
  return {.verb = name.first,
          .kind = name.second,
          .calls = steps.back().calls,
          .ms = middle([](const Sums& sums) { return sums.ms; }),
          .bytes = static_cast<std::int64_t>(middle([](const Sums& sums) { return sums.bytes; })),
          .operations = static_cast<std::int64_t>(middle([](const Sums& sums) { return sums.operations; }))};
}

}  // namespace

StepSummary summarise(const std::vector<StepCalls>& steps) {
  check(!steps.empty(), "at least one step");
  std::vector<double> whole;
  std::vector<double> gaps;
  std::map<VerbAndKind, std::vector<Sums>> verbs;
  for (const StepCalls& step : steps) {
    double busy = 0;
    for (const auto& [name, sums] : sums_of(step)) {
      verbs[name].push_back(sums);
      busy += sums.ms;
    }
    whole.push_back(step.calls.empty() ? 0 : step.calls.back().end_ms - step.calls.front().begin_ms);
    gaps.push_back(whole.back() - busy);
  }
  StepSummary summary{.num_steps = static_cast<int>(steps.size()),
                      .num_tokens = steps.back().num_tokens,
                      .max_context = steps.back().max_context,
                      .ms = median(whole),
                      .gaps_ms = median(gaps),
                      .bytes = 0,
                      .verbs = {}};
  for (const auto& [name, sums] : verbs) {
    summary.verbs.push_back(summarise_verb(name, sums));
    summary.bytes += summary.verbs.back().bytes;
  }
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

void VerbTimeline::add(VerbCall call) {
  if (!steps_.empty()) steps_.back().calls.push_back(std::move(call));
}

}  // namespace octavo
