// The routes, a function a group: each adds its rows to the router. docs/http.md says what each takes and answers.
#pragma once

#include "server/router.h"
#include "server/service.h"

namespace octavo {

void add_health_routes(Router& router, Service& service);
void add_model_routes(Router& router, Service& service);
void add_token_routes(Router& router, Service& service);
void add_chat_routes(Router& router, Service& service);
void add_completion_routes(Router& router, Service& service);
void add_operator_routes(Router& router, Service& service);
void add_openapi_route(Router& router);  // describes all routes of the router

void add_routes(Router& router, Service& service);  // all that a server has, its page too

HttpResponse json_response(const OrderedJson& body);

}  // namespace octavo
