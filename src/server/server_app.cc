#include "server/server_app.h"

#include <algorithm>
#include <csignal>

#include "base/log.h"
#include "base/strings.h"
#include "server/generation.h"

namespace octavo {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLastWords = std::chrono::milliseconds(500);  // for stopped requests to say so

}  // namespace

bool ServerApp::refuse(const HttpRequest& head, HttpResponse& response) {
  if (const auto answer = preflight(head)) {
    response = *answer;
    return true;
  }
  if (!service_.access.allows(head.path, head.header("authorization"))) {
    response =
        error_response({.status = 401, .message = "the API key is missing or wrong: send Authorization: Bearer KEY"});
    return true;
  }
  const Router::Match match = router_.find(head.method, head.path);
  if (match.route == nullptr && match.allowed.empty()) {
    response = error_response({.status = 404, .message = "there is no " + head.path.substr(0, 200)});
    return true;
  }
  if (match.route == nullptr) {
    response = error_response({.status = 405, .message = head.path + " takes " + match.allowed});
    response.headers.emplace_back("allow", match.allowed);
    return true;
  }
  if (!match.route->generates || !service_.draining) return false;
  response = error_response({.status = 503, .message = "the server is shutting down", .retry_after = 5});
  response.headers.emplace_back("connection", "close");
  service_.metrics.rejected(503);
  return true;
}

void ServerApp::handle(const std::shared_ptr<Exchange>& exchange) {
  router_.find(exchange->request().method, exchange->request().path).route->handler(service_, exchange);
}

bool ServerApp::allows_origin(std::string_view origin) const {
  const auto& origins = cors_.origins;
  return std::find(origins.begin(), origins.end(), "*") != origins.end() ||
         std::find(origins.begin(), origins.end(), origin) != origins.end();
}

std::optional<HttpResponse> ServerApp::preflight(const HttpRequest& request) const {
  const std::string_view wanted = request.header("access-control-request-method");
  const std::string_view origin = request.header("origin");
  if (request.method != "OPTIONS" || wanted.empty() || origin.empty() || cors_.origins.empty()) return std::nullopt;
  if (!allows_origin(origin)) return error_response({.status = 403, .message = "this origin is not allowed"});
  const auto list = [](const std::vector<std::string>& names, std::string_view asked) {
    const bool any = std::find(names.begin(), names.end(), "*") != names.end();
    return any ? std::string(asked) : join(names, ", ");
  };
  HttpResponse response{.status = 204};
  response.headers.emplace_back("access-control-allow-methods", list(cors_.methods, wanted));
  const std::string headers = list(cors_.headers, request.header("access-control-request-headers"));
  if (!headers.empty()) response.headers.emplace_back("access-control-allow-headers", headers);
  response.headers.emplace_back("access-control-max-age", "600");
  return response;
}

void ServerApp::add_headers(const HttpRequest& request, HttpHeaders& headers) {
  headers.emplace_back("server", "octavo/" OCTAVO_VERSION);
  headers.emplace_back("x-request-id", request.id);
  const std::string_view origin = request.header("origin");
  if (cors_.origins.empty() || origin.empty() || !allows_origin(origin)) return;
  headers.emplace_back("access-control-allow-origin", origin);
  headers.emplace_back("vary", "origin");
  headers.emplace_back("access-control-expose-headers", "x-request-id, retry-after");
  if (cors_.credentials) headers.emplace_back("access-control-allow-credentials", "true");
}

void ServerApp::signal(int number) {
  if (number == SIGHUP) {
    if (const Status read = service_.access.reload(); !read)
      log::error("keys not reloaded", {{"why", read.error().message()}});
    else
      log::info("keys reloaded");
    return;
  }
  const Clock::time_point now = Clock::now();
  if (service_.draining) {
    log::info("stopping now", {{"requests", service_.generations.size()}});
    stop_at_ = now;
    return;
  }
  log::info("shutting down", {{"requests", service_.generations.size()},
                              {"timeout_seconds", std::chrono::duration<double>(shutdown_timeout_).count()}});
  service_.draining = true;
  stop_at_ = now + shutdown_timeout_;
}

void ServerApp::stop_all() {
  std::vector<std::shared_ptr<Generation>> all;
  for (const auto& [id, generation] : service_.generations)
    if (auto alive = generation.lock()) all.push_back(std::move(alive));
  for (const auto& generation : all)
    generation->stop({.status = 503, .message = "the server is shutting down", .retry_after = 5}, "shutdown");
}

void ServerApp::tick(Clock::time_point now) {
  service_.watch_engine(now);
  if (!service_.draining) return;
  if (gone_at_) {
    if (now >= *gone_at_ || service_.http.num_exchanges() == 0) service_.http.stop();
    return;
  }
  // An answer is in work until its client has all of it.
  const bool idle =
      service_.generations.empty() && service_.admission.preparing() == 0 && service_.http.num_exchanges() == 0;
  if (!idle && now < *stop_at_) return;
  stop_all();
  gone_at_ = now + kLastWords;
}

}  // namespace octavo
