// What every generating route does: turn away what the server has no room for, read the body on a worker, submit.
#pragma once

#include <functional>
#include <memory>

#include "server/generation.h"
#include "server/service.h"

namespace octavo {

struct GeneratingRoute {
  SpecResult (*read)(const OrderedJson& body, const Words& words);
  Generation::MakeForm make_form;
  const char* prompt_field;
};

void generate(Service& service, const GeneratingRoute& route, const std::shared_ptr<Exchange>& exchange);

// Parses the exchange's body on a worker, lets `answer` make of it a response there, and sends that.
using Answer = std::function<HttpResponse(const OrderedJson& body, const Words& words)>;
void answer_body(Service& service, const std::shared_ptr<Exchange>& exchange, Answer answer);

}  // namespace octavo
