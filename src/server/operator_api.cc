#include <vector>

#include "server/apis.h"
#include "server/fields.h"
#include "server/generation.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxBody = std::size_t{256} << 10;  // is read on the event loop

// {"request_ids": [...]} ends these; {"abort_all": true} all.
void abort_requests(Service& service, const std::shared_ptr<Exchange>& exchange) {
  if (exchange->request().body.size() > kMaxBody)
    return exchange->respond(error_response({.status = 413, .message = "the list of request_ids is too long"}));
  const Body body = parse_body(exchange->request().body);
  if (body.error) return exchange->respond(error_response(*body.error));
  Fields fields(body.json);
  std::vector<std::shared_ptr<Generation>> found;
  const auto add = [&](auto first, auto last) {
    for (; first != last; ++first)
      if (auto generation = first->second.lock()) found.push_back(std::move(generation));
  };
  const OrderedJson* ids = fields.array("request_ids");
  const bool all = fields.flag("abort_all").value_or(false);
  if (ids == nullptr && !all)
    fields.refuse("request_ids", "request_ids is missing: a list of ids of requests, or abort_all: true");
  if (all) add(service.generations.begin(), service.generations.end());
  if (ids != nullptr && !all) {
    for (const OrderedJson& entry : *ids) {
      if (!entry.is_string()) {
        fields.wrong_type("request_ids", "a list of strings");
        break;
      }
      std::string id = entry.get<std::string>();
      for (const char* prefix : {"chatcmpl-", "cmpl-"})  // as answers show it
        if (id.starts_with(prefix)) id.erase(0, std::string_view(prefix).size());
      const auto [first, last] = service.generations.equal_range(id);
      add(first, last);
    }
  }
  if (fields.error()) return exchange->respond(error_response(*fields.error()));
  for (const auto& generation : found)
    generation->stop({.status = 499, .message = "the request was aborted by an operator"}, "operator");
  OrderedJson answer;
  answer["aborted"] = found.size();
  exchange->respond(json_response(answer));
}

}  // namespace

void add_operator_routes(Router& router) {
  router.add({"POST", "/abort_requests",
              [](Service& service, const std::shared_ptr<Exchange>& exchange) { abort_requests(service, exchange); }});
  router.add({"POST", "/reset_prefix_cache", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                service.engine.reset_prefix_cache();
                exchange->respond({});
              }});
  router.add({"GET", "/recent", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                exchange->respond({.status = 200, .body = service.recent.text()});
              }});
  router.add({"GET", "/kv_event_sources", [](Service&, const std::shared_ptr<Exchange>& exchange) {
                exchange->respond(json_response(OrderedJson::array()));
              }});
}

}  // namespace octavo
