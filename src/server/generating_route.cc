#include "server/generating_route.h"

#include <exception>
#include <utility>

#include "base/log.h"
#include "server/fields.h"

namespace octavo {

void generate(Service& service, const GeneratingRoute& route, const std::shared_ptr<Exchange>& exchange) {
  const auto arrival = std::chrono::steady_clock::now();
  if (const Status alive = service.engine.alive(); !alive)
    return exchange->respond(error_response(api_error(alive.error())));
  if (const auto full = service.admission.refuse(1, service.engine.stats().waiting)) {
    service.metrics.rejected(full->status);
    return exchange->respond(error_response(*full));
  }
  // Counted as one until it is known how many it is.
  service.admission.enter(1);
  service.admission.prepare(1);
  const auto result = std::make_shared<SpecResult>();
  const auto read = [&service, route, exchange, result] {
    Body body = parse_body(exchange->request().body);
    if (body.error)
      result->error = std::move(body.error);
    else
      *result = route.read(body.json, service.words);
  };
  service.work(exchange, read, [&service, route, exchange, result, arrival] {
    service.admission.leave(1);
    service.admission.prepare(-1);
    exchange->drop_body();
    if (!exchange->open() || exchange->answered()) return;
    if (result->error) return exchange->respond(error_response(*result->error));
    try {
      Generation::start(service, exchange, std::move(result->spec), route.make_form, route.prompt_field, arrival);
    } catch (const std::exception& failure) {
      log::error("request failed", {{"id", exchange->request().id}, {"why", failure.what()}});
      if (!exchange->answered())
        exchange->respond(error_response({.status = 500, .message = "the server failed on this request"}));
    }
  });
}

void answer_body(Service& service, const std::shared_ptr<Exchange>& exchange, Answer answer) {
  const auto response = std::make_shared<HttpResponse>();
  const auto read = [&service, exchange, response, answer = std::move(answer)] {
    Body body = parse_body(exchange->request().body);
    *response = body.error ? error_response(*body.error) : answer(body.json, service.words);
  };
  service.work(exchange, read, [exchange, response] {
    if (exchange->open() && !exchange->answered()) exchange->respond(std::move(*response));
  });
}

}  // namespace octavo
