// Service: what all handlers share: the engine, its words, who may come in, what is counted, who is being served. Its
// members are for the event loop's thread, but for words, which workers read.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/access.h"
#include "server/admission.h"
#include "server/http_server.h"
#include "server/metrics.h"
#include "server/recent.h"
#include "server/wakeups.h"
#include "server/words.h"
#include "server/worker_pool.h"

namespace octavo {

class Generation;

struct ServicePolicy {
  std::chrono::milliseconds request_timeout{0};  // 0: none
  std::chrono::milliseconds ping_interval{10'000};
  std::chrono::milliseconds hang_bound{300'000};  // an engine that has work and ends no step for so long is dead
  bool strict_max_tokens = false;                 // refuse what would be cut to the context
  bool log_requests = false;
};

class Service {
 public:
  Service(Engine& served_engine, const Words& served_words, HttpServer& http, Access access_rules,
          const AdmissionLimits& limits, const ServicePolicy& service_policy);

  // Runs `work` on a worker, unless the client has left, and then `then` on the event loop, always: by then the
  // exchange may be closed, or answered with a 500 because the work threw.
  void work(const std::shared_ptr<Exchange>& exchange, std::function<void()> work, std::function<void()> then);

  // An error when the engine has died or hangs.
  Status healthy() const;
  void watch_engine(std::chrono::steady_clock::time_point now);

  Engine& engine;
  const Words& words;
  HttpServer& http;
  Access access;
  Admission admission;
  Metrics metrics;
  Recent recent;
  const ServicePolicy policy;
  const int max_running;       // continuations that may take part in a step
  const std::int64_t started;  // seconds since 1970
  std::shared_ptr<Wakeups> wakeups;
  std::multimap<std::string, std::weak_ptr<Generation>> generations;  // by the request's id
  bool draining = false;

 private:
  std::chrono::steady_clock::time_point last_progress_;
  std::uint64_t last_steps_ = 0;
  bool hangs_ = false;
  WorkerPool pool_;  // last: joined before what its work uses is gone
};

}  // namespace octavo
