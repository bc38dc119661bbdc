// ServerApp: what happens to a request before its handler: who may call, which route, which method, and what every
// answer carries (the request's id, CORS). And the end of the server: on SIGTERM or SIGINT it turns new work away, lets
// running requests finish within a bound, and stops; a second signal stops at once. SIGHUP reads the keys anew.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "server/router.h"
#include "server/service.h"

namespace octavo {

struct CorsConfig {
  std::vector<std::string> origins;  // empty: no CORS; "*": any
  std::vector<std::string> methods = {"*"};
  std::vector<std::string> headers = {"*"};
  bool credentials = false;
};

class ServerApp final : public HttpApp {
 public:
  ServerApp(Service& service, const Router& router, CorsConfig cors, std::chrono::milliseconds shutdown_timeout)
      : service_(service), router_(router), cors_(std::move(cors)), shutdown_timeout_(shutdown_timeout) {}

  bool refuse(const HttpRequest& head, HttpResponse& response) override;
  void handle(const std::shared_ptr<Exchange>& exchange) override;
  void add_headers(const HttpRequest& request, HttpHeaders& headers) override;
  void tick(std::chrono::steady_clock::time_point now) override;
  void signal(int number) override;

 private:
  std::optional<HttpResponse> preflight(const HttpRequest& request) const;
  bool allows_origin(std::string_view origin) const;
  void stop_all();

  Service& service_;
  const Router& router_;
  const CorsConfig cors_;
  const std::chrono::milliseconds shutdown_timeout_;
  std::optional<std::chrono::steady_clock::time_point> stop_at_;  // requests are stopped
  std::optional<std::chrono::steady_clock::time_point> gone_at_;  // and the server ends, read or not
};

}  // namespace octavo
