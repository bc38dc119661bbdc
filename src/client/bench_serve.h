// `octavo bench serve`: random prompts to a running server, at a given rate and a given number at a time, and how long
// their answers took. In vLLM's words, so that results can be compared. The server counts the tokens.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/bench_load.h"
#include "client/bench_results.h"
#include "client/http_client.h"

namespace octavo {

enum class BenchRoute { completions, chat };

struct BenchServeOptions {
  ClientConfig client;
  std::string model;               // empty: the first that is served
  std::string backend = "openai";  // as it was named
  BenchRoute route = BenchRoute::completions;
  std::string endpoint = {};  // empty: the route's own
  LoadOptions load;
  std::optional<int> max_concurrency = {};
  int num_warmups = 0;
  std::optional<int> logprobs = {};
  std::string extra_body = "{}";  // JSON: fields of every request, such as sampling
  int ready_check_timeout = 0;    // seconds to wait for a server
  ResultOptions results;
  std::string label = {};
  std::vector<std::pair<std::string, std::string>> metadata = {};
  bool save_result = false;
  bool append_result = false;
  std::string result_dir = {};
  std::string result_filename = {};  // empty: made of backend, rate, model and time
  bool progress = true;
};

// An error when no request was answered.
Status bench_serve(const BenchServeOptions& options);

}  // namespace octavo
