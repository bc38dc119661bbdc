// The routes, a function a group: each adds its rows to the router. docs/http.md says what each takes and answers.
// Handlers are given the server's Service with each request.
#pragma once

#include "server/router.h"
#include "server/service.h"

namespace octavo {

void add_health_routes(Router& router);
void add_model_routes(Router& router);
void add_token_routes(Router& router);
void add_chat_routes(Router& router);
void add_completion_routes(Router& router);
void add_operator_routes(Router& router);
void add_openapi_route(Router& router);  // describes all routes of the router, which outlives it

void add_routes(Router& router);       // all that a server has, its page too
bool is_route(std::string_view path);  // of those, for whatever method

HttpResponse json_response(const OrderedJson& body);

}  // namespace octavo
