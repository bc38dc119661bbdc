// One request of a benchmark: random token ids, greedy, to its full length; and when its tokens came. How a bench sets
// up its engine: no prefix cache, room for what is asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace octavo {

// A cache to measure, under the name that the results carry.
struct CacheVariant {
  std::string name = "auto";
  KvCacheChoice choice;
  std::vector<std::string> skip_layers;
};

// Each cache with no layer skipped, and those that are not automatic with each of the lists too: a list of layers per
// entry, or several in one entry separated by semicolons. All get the transform.
std::vector<CacheVariant> cache_variants(const std::vector<CacheVariant>& caches, TransformChoice transform,
                                         const std::vector<std::string>& skip_lists);

struct RequestTimes {
  double ttft_ms = 0;          // from submit to the first token
  std::vector<double> itl_ms;  // between one token and the next
  double mean_itl_ms() const;  // 0 when there is one token only
};

// The config of an engine whose longest request has so many tokens; an error when the model has not as many positions.
Result<EngineConfig> bench_config(EngineConfig config, const ModelSpec& spec, int longest);

std::vector<std::int32_t> random_ids(std::uint64_t seed, int count, int vocab);

// A request under way, and its clock. take() notes what has come, without waiting; an error when the request failed or
// ended early.
class RequestRun {
 public:
  static Result<RequestRun> start(Engine& engine, std::vector<std::int32_t> prompt, int output_len);
  Result<bool> take();          // true: it has ended
  Result<RequestTimes> wait();  // for the end
  TokenStream& stream() { return *stream_; }
  const RequestTimes& times() const { return times_; }

 private:
  RequestRun() = default;
  Status note(const TokenEvent& event);
  Status check_end() const;

  std::unique_ptr<TokenStream> stream_;
  std::chrono::steady_clock::time_point last_;
  int output_len_ = 0;
  int num_tokens_ = 0;
  RequestTimes times_;
};

// One request alone, to its end.
Result<RequestTimes> timed_request(Engine& engine, std::vector<std::int32_t> prompt, int output_len);

}  // namespace octavo
