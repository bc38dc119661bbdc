#include "server/service.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace octavo {
namespace {

constexpr int kWorkers = 2;
constexpr std::size_t kMaxWaitingWork = 8192;

}  // namespace

Service::Service(Engine& served_engine, const Words& served_words, HttpServer& http_server, Access access_rules,
                 const AdmissionLimits& limits, const ServicePolicy& service_policy)
    : engine(served_engine),
      words(served_words),
      http(http_server),
      access(std::move(access_rules)),
      admission(limits),
      metrics(served_words.names.front(), served_words.max_model_len),
      recent(std::chrono::steady_clock::now()),
      policy(service_policy),
      max_running(limits.max_running),
      started(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                  .count()),
      wakeups(std::make_shared<Wakeups>(http_server)),
      last_progress_(std::chrono::steady_clock::now()),
      pool_(kWorkers, kMaxWaitingWork) {}

void Service::work(const std::shared_ptr<Exchange>& exchange, std::function<void()> work, std::function<void()> then) {
  const auto after = std::make_shared<std::function<void()>>(std::move(then));
  auto job = [this, exchange, work = std::move(work), after]() mutable {
    bool done = false;
    try {
      if (exchange->open()) work();
      done = true;
    } catch (const std::exception& failure) {
      log::error("request failed", {{"id", exchange->request().id}, {"why", failure.what()}});
    }
    // What the work holds is let go of on the loop.
    http.post([exchange = std::move(exchange), work = std::move(work), after, done] {
      if (!done && exchange->open())
        exchange->respond(error_response({.status = 500, .message = "the server failed on this request"}));
      (*after)();
    });
  };
  if (pool_.submit(std::move(job))) return;
  exchange->respond(error_response({.status = 503, .message = "too many requests wait to be read", .retry_after = 1}));
  (*after)();
}

Status Service::healthy() const {
  OCTAVO_TRY(engine.alive());
  if (hangs_) return Error("the engine has work but has ended no step for too long", ErrorKind::unavailable);
  return {};
}

void Service::watch_engine(std::chrono::steady_clock::time_point now) {
  const EngineStats stats = engine.stats();
  // What a step took up that never ended is in no statistics; who waits for a first token knows better.
  const bool idle = stats.running == 0 && stats.waiting == 0 && admission.queued_tokens() == 0;
  if (idle || stats.steps != last_steps_) last_progress_ = now;
  last_steps_ = stats.steps;
  const bool hangs = now - last_progress_ > policy.hang_bound;
  if (hangs && !hangs_) log::error("engine hangs", {{"running", stats.running}, {"waiting", stats.waiting}});
  hangs_ = hangs;
  recent.tick(now, stats, stats.waiting + admission.preparing());
}

}  // namespace octavo
