#include "server/apis.h"

namespace octavo {
namespace {

constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// Whether requests are served: not while the server goes away, nor after the engine has died.
void answer_ready(Service& service, Exchange& exchange) {
  const Status healthy = service.healthy();
  if (!healthy) return exchange.respond(error_response(api_error(healthy.error())));
  if (service.draining)
    return exchange.respond(
        error_response({.status = 503, .message = "the server is shutting down", .retry_after = 5}));
  exchange.respond({});
}

ServerGauges gauges_of(const Service& service) {
  return {.waiting = service.admission.preparing(),
          .queued_tokens = service.admission.queued_tokens(),
          .connections = service.http.num_connections()};
}

}  // namespace

HttpResponse json_response(const OrderedJson& body) { return {.status = 200, .body = to_text(body)}; }

void add_health_routes(Router& router) {
  for (const char* path : {"/health", "/ping", "/ready"})
    router.add({"GET", path,
                [](Service& service, const std::shared_ptr<Exchange>& exchange) { answer_ready(service, *exchange); }});
  router.add({"POST", "/ping",
              [](Service& service, const std::shared_ptr<Exchange>& exchange) { answer_ready(service, *exchange); }});
  router.add({"GET", "/live", [](Service&, const std::shared_ptr<Exchange>& exchange) { exchange->respond({}); }});
  router.add({"GET", "/version", [](Service&, const std::shared_ptr<Exchange>& exchange) {
                OrderedJson answer;
                answer["version"] = OCTAVO_VERSION;
                exchange->respond(json_response(answer));
              }});
  router.add({"GET", "/load", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                OrderedJson answer;
                answer["server_load"] = service.admission.in_flight();
                exchange->respond(json_response(answer));
              }});
  router.add({"GET", "/get_load", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                OrderedJson answer;
                answer["load"] = service.admission.in_flight();
                exchange->respond(json_response(answer));
              }});
  router.add({"GET", "/metrics", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                exchange->respond(
                    {.status = 200,
                     .body = service.metrics.text(service.engine.stats(), service.engine.facts(), gauges_of(service)),
                     .content_type = kMetricsType});
              }});
}

}  // namespace octavo
