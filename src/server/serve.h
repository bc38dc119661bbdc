// `octavo serve`: an engine behind the API that clients of OpenAI's and vLLM's servers speak. Returns when it was told
// to stop, or with the reason why it cannot start.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/access.h"
#include "server/http_server.h"
#include "server/server_app.h"
#include "server/service.h"

namespace octavo {

struct ServeConfig {
  EngineConfig engine;
  HttpAddress address;
  HttpLimits limits;
  AccessConfig access;
  CorsConfig cors;
  ServicePolicy policy;
  std::vector<std::string> served_names;  // empty: the model as it was named
  std::string model_name;                 // as it was named
  std::string chat_template;              // --chat-template, or empty
  bool trust_request_template = false;
  std::string call_parser = "auto", reasoning_parser = "auto";  // --tool-call-parser, --reasoning-parser
  bool recommended_sampling = true;  // --generation-config auto
  int max_queued_requests = 1024;
  std::int64_t max_queued_tokens = 0;  // 0: no limit
  std::chrono::milliseconds shutdown_timeout{30'000};
};

Status serve(const ServeConfig& config, const BackendFactory& make_backend);

}  // namespace octavo
