#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "server/apis.h"
#include "server/openapi_bodies.h"

namespace octavo {
namespace {

OrderedJson operation(const Route& route, const Words& words) {
  OrderedJson result;
  std::string id = route.method + route.path;
  std::replace_if(
      id.begin(), id.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  result["operationId"] = id;
  if (route.path.ends_with('}')) {
    OrderedJson parameter;
    parameter["name"] = "model";
    parameter["in"] = "path";
    parameter["required"] = true;
    parameter["schema"]["type"] = "string";
    result["parameters"] = OrderedJson::array({std::move(parameter)});
  }
  if (auto schema = route.method == "POST" ? body_schema(route.path, words) : std::nullopt) {
    result["requestBody"]["required"] = true;
    result["requestBody"]["content"]["application/json"]["schema"] = *std::move(schema);
  }
  result["responses"]["200"]["description"] = "the answer";
  result["responses"]["default"]["description"] = "an error";
  result["responses"]["default"]["content"]["application/json"]["schema"]["$ref"] = "#/components/schemas/Error";
  return result;
}

OrderedJson openapi(const Router& router, const Words& words) {
  OrderedJson page;
  page["openapi"] = "3.1.0";
  page["info"] = {{"title", "octavo"}, {"version", OCTAVO_VERSION}};
  for (const Route& route : router.routes()) {
    if (!route.for_programs) continue;
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    page["paths"][route.path][method] = operation(route, words);
  }
  OrderedJson error;
  error["type"] = "object";
  error["properties"]["error"]["type"] = "object";
  error["required"] = {"error"};
  page["components"]["schemas"]["Error"] = std::move(error);
  return page;
}

}  // namespace

void add_openapi_route(Router& router) {
  router.add({"GET", "/openapi.json", [&router](Service& service, const std::shared_ptr<Exchange>& exchange) {
                exchange->respond(json_response(openapi(router, service.words)));
              }});
}

}  // namespace octavo
