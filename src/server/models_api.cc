#include <algorithm>

#include "server/apis.h"

namespace octavo {
namespace {

OrderedJson model_json(const Service& service, const std::string& name) {
  OrderedJson model;
  model["id"] = name;
  model["object"] = "model";
  model["created"] = service.started;
  model["owned_by"] = "octavo";
  model["root"] = service.words.path;
  model["parent"] = nullptr;
  model["max_model_len"] = service.words.max_model_len;
  model["permission"] = OrderedJson::array();
  return model;
}

OrderedJson server_info(const Service& service) {
  OrderedJson info;
  info["model_path"] = service.words.path;
  info["served_model_name"] = service.words.names.front();
  info["tokenizer_path"] = service.words.path;
  info["dp_size"] = 1;
  info["tp_size"] = 1;
  info["version"] = OCTAVO_VERSION;
  info["max_model_len"] = service.words.max_model_len;
  info["max_total_tokens"] = service.engine.facts().capacity_tokens;
  info["max_running_requests"] = service.max_running;
  info["kv_bytes_per_token"] = service.engine.facts().kv_bytes_per_token;
  info["kv_cache"] = service.engine.facts().kv_report;
  return info;
}

OrderedJson model_info(const Service& service) {
  OrderedJson info;
  info["model_path"] = service.words.path;
  info["tokenizer_path"] = service.words.path;
  info["is_generation"] = true;
  info["model_type"] = service.engine.spec().family;
  info["architectures"] = {service.engine.spec().architecture};
  info["max_model_len"] = service.words.max_model_len;
  return info;
}

}  // namespace

void add_model_routes(Router& router) {
  router.add({"GET", "/v1/models", [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                OrderedJson answer;
                answer["object"] = "list";
                answer["data"] = OrderedJson::array();
                for (const std::string& name : service.words.names) answer["data"].push_back(model_json(service, name));
                exchange->respond(json_response(answer));
              }});
  const Route one{"GET", "/v1/models/{model}", {}};
  router.add({"GET", "/v1/models/{model}", [one](Service& service, const std::shared_ptr<Exchange>& exchange) {
                const std::string name(last_part(one, exchange->request().path));
                const auto& names = service.words.names;
                if (std::find(names.begin(), names.end(), name) == names.end())
                  return exchange->respond(error_response(service.words.unknown_model(name)));
                exchange->respond(json_response(model_json(service, name)));
              }});
  for (const char* path : {"/server_info", "/get_server_info"})
    router.add({"GET", path, [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                  exchange->respond(json_response(server_info(service)));
                }});
  for (const char* path : {"/model_info", "/get_model_info"})
    router.add({"GET", path, [](Service& service, const std::shared_ptr<Exchange>& exchange) {
                  exchange->respond(json_response(model_info(service)));
                }});
}

}  // namespace octavo
