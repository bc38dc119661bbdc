#include "client/bench_load.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"

namespace octavo {
namespace {

// Common words, of which most tokenizers have most as one token.
constexpr std::string_view kWords =
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area "
    "money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father "
    "power hour game line end member law car city community name president team minute idea kid body information back "
    "parent face others level office door health person art war history party result change morning reason research "
    "girl "
    "guy moment air teacher force education foot boy age policy music market sense nation plan college interest death "
    "experience effect use class control field development role effort rate heart drug show leader light voice wife "
    "police "
    "mind price report decision son view relationship town road arm difference value building action season society "
    "tax "
    "director position player record paper space ground form event official matter center couple site project activity "
    "star table need court oil situation cost industry figure street image phone data picture practice piece land "
    "product "
    "doctor wall patient worker news test movie north love support technology step baby computer type attention film "
    "tree "
    "source truth chance garden river stone winter summer spring paint bridge island engine mirror forest silver "
    "copper "
    "window corner letter market signal yellow purple orange planet ocean desert valley mountain circle square number";

int drawn(std::mt19937_64& random, int length, double ratio, int least) {
  const int low = std::max(least, static_cast<int>(std::floor(length * (1 - ratio))));
  const int high = std::max(low, static_cast<int>(std::ceil(length * (1 + ratio))));
  return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
}

}  // namespace

std::vector<std::string> load_words() {
  std::vector<std::string> words;
  for (const std::string_view word : split(kWords, " ")) {
    std::string spaced = " " + std::string(word);
    if (std::find(words.begin(), words.end(), spaced) == words.end()) words.push_back(std::move(spaced));
  }
  return words;
}

std::vector<double> plan_arrivals(int num, double rate, double burstiness, std::mt19937_64& random) {
  std::gamma_distribution<double> gap(burstiness, 1 / (rate * burstiness));
  std::vector<double> arrivals;
  double now = 0;
  for (int i = 0; i < num; ++i) arrivals.push_back(now += gap(random));
  if (now > 0)
    for (double& arrival : arrivals) arrival *= num / rate / now;
  return arrivals;
}

std::vector<PlannedCall> plan_load(const LoadOptions& options, int num_units) {
  std::mt19937_64 random(options.seed);
  const auto unit = [&] { return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(num_units)); };
  std::vector<std::int32_t> prefix(static_cast<std::size_t>(options.prefix_len));
  for (std::int32_t& id : prefix) id = unit();
  std::vector<PlannedCall> calls(static_cast<std::size_t>(options.num_prompts));
  for (PlannedCall& call : calls) {
    call.ids = prefix;
    const int length = drawn(random, options.input_len, options.range_ratio, options.prefix_len > 0 ? 0 : 1);
    for (int i = 0; i < length; ++i) call.ids.push_back(unit());
    call.output_len = drawn(random, options.output_len, options.range_ratio, 1);
  }
  if (options.request_rate) {
    const auto arrivals = plan_arrivals(options.num_prompts, *options.request_rate, options.burstiness, random);
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i].arrival_seconds = arrivals[i];
  }
  return calls;
}

}  // namespace octavo
