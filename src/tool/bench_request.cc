#include "tool/bench_request.h"

#include <chrono>
#include <random>

#include "base/strings.h"
#include "terminal/statistics.h"

namespace octavo {
namespace {

using Clock = std::chrono::steady_clock;
double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

double RequestTimes::mean_itl_ms() const { return itl_ms.empty() ? 0.0 : mean(itl_ms); }

std::vector<CacheVariant> cache_variants(const std::vector<CacheVariant>& caches, TransformChoice transform,
                                         const std::vector<std::string>& skip_lists) {
  std::vector<CacheVariant> variants;
  for (CacheVariant cache : caches) {
    cache.choice.transform = transform;
    variants.push_back(cache);
    if (cache.choice.automatic) continue;
    for (const std::string& lists : skip_lists) {
      for (const std::string_view list : split(lists, ";")) {
        variants.push_back(cache);
        variants.back().name += " skip " + std::string(trim(list));
        variants.back().skip_layers = {std::string(list)};
      }
    }
  }
  return variants;
}

Result<EngineConfig> bench_config(EngineConfig config, const ModelSpec& spec, int longest) {
  if (longest > spec.max_positions)
    return Error("input and output of " + std::to_string(longest) + " tokens are more than the " +
                 std::to_string(spec.max_positions) +
                 " positions that the model was made for; --rope-scaling or --hf-overrides can extend them");
  config.prefix_caching = false;
  if (!config.max_model_len) config.max_model_len = longest;
  return config;
}

std::vector<std::int32_t> random_ids(std::uint64_t seed, int count, int vocab) {
  std::mt19937_64 random(seed);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
  return ids;
}

Result<RequestRun> RequestRun::start(Engine& engine, std::vector<std::int32_t> prompt, int output_len) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = output_len;
  request.sampling.ignore_eos = true;
  RequestRun run;
  run.output_len_ = output_len;
  run.last_ = Clock::now();
  OCTAVO_TRY(run.stream_, engine.submit(std::move(request)));
  return run;
}

Status RequestRun::note(const TokenEvent& event) {
  if (event.finish == FinishReason::failed) return Error(event.failure, ErrorKind::unavailable);
  if (!event.token) return {};
  const Clock::time_point now = Clock::now();
  if (num_tokens_++ == 0)
    times_.ttft_ms = ms_between(last_, now);
  else
    times_.itl_ms.push_back(ms_between(last_, now));
  last_ = now;
  return {};
}

Status RequestRun::check_end() const {
  if (num_tokens_ == output_len_) return {};
  return Error("a request for " + std::to_string(output_len_) + " tokens ended after " + std::to_string(num_tokens_) +
               ": --max-model-len holds no more");
}

Result<bool> RequestRun::take() {
  bool nothing_yet = false;
  while (const auto event = stream_->next_for(std::chrono::milliseconds(0), nothing_yet)) OCTAVO_TRY(note(*event));
  if (nothing_yet) return false;
  OCTAVO_TRY(check_end());
  return true;
}

Result<RequestTimes> RequestRun::wait() {
  while (const auto event = stream_->next()) OCTAVO_TRY(note(*event));
  OCTAVO_TRY(check_end());
  return times_;
}

Result<RequestTimes> timed_request(Engine& engine, std::vector<std::int32_t> prompt, int output_len) {
  OCTAVO_TRY(RequestRun run, RequestRun::start(engine, std::move(prompt), output_len));
  return run.wait();
}

}  // namespace octavo
