#include "server/serve.h"

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "base/strings.h"
#include "engine/text_assets.h"
#include "server/apis.h"
#include "server/page.h"

namespace octavo {
namespace {

// How the model writes calls and reasoning, and how its template wants them back.
Status choose_formats(const ServeConfig& config, Words& words) {
  const std::string source = words.chat_template ? words.chat_template->chat_template.source() : std::string();
  OCTAVO_TRY(words.formats, choose_answer_formats(config.call_parser, config.reasoning_parser, source));
  if (words.chat_template)
    words.history = probe_tool_history(words.chat_template->chat_template, words.chat_template->special);
  for (const std::string& mark : format_markers(words.formats)) {
    const auto id = words.tokenizer.token_to_id(mark);
    words.special_marks = words.special_marks || (id && words.tokenizer.is_special(*id));
  }
  return {};
}

std::string describe_tools(const Words& words) {
  if (!words.chat_template) return "none: there is no chat template";
  std::string text = "calls are read as " + format_name(words.formats.calls);
  if (words.formats.calls == CallFormat::none) text = "calls are not read, they are content";
  if (!words.history.shows_tools) text += "; the chat template does not show the model a request's tools";
  return text;
}

Result<Words> load_words(const ServeConfig& config) {
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open_text(config.engine.model_path));
  OCTAVO_TRY(Tokenizer tokenizer, load_tokenizer(checkpoint));
  Words words{.names = config.served_names, .path = checkpoint.path(), .tokenizer = std::move(tokenizer)};
  if (words.names.empty()) words.names = {config.model_name.empty() ? checkpoint.path() : config.model_name};
  Result<TemplateAsset> asset = load_chat_template(checkpoint, config.chat_template);
  if (asset) {
    words.chat_template = *std::move(asset);
  } else if (asset.error().kind() == ErrorKind::not_found && config.chat_template.empty()) {
    words.no_template = asset.error().message();
    log::warn("no chat template", {{"effect", "/v1/chat/completions refuses"}});
  } else {
    return asset.error();
  }
  OCTAVO_TRY(choose_formats(config, words));
  words.longest_token = longest_token_bytes(words.tokenizer);
  words.trust_request_template = config.trust_request_template;
  if (config.recommended_sampling) words.defaults = recommended_sampling(checkpoint.generation_config());
  return words;
}

// What the server is, in one block; on stdout, so that it can be read apart from the log.
void print_start(const ServeConfig& config, int max_num_seqs, const Service& service, const HttpServer& http) {
  const EngineFacts& facts = service.engine.facts();
  std::string text = "octavo " OCTAVO_VERSION " serves " + join(service.words.names, ", ") + "\n";
  const auto line = [&](const char* name, const std::string& value) {
    text += "  " + std::string(name) + std::string(12 - std::string(name).size(), ' ') + value + "\n";
  };
  line("model", service.words.path + " (" + human_bytes(facts.weight_bytes) + " of weights)");
  for (const std::string& report : facts.kv_report) line("kv cache", report);
  line("capacity", facts.capacity_derivation);
  line("context", std::to_string(facts.max_model_len) + " tokens");
  line("tools", describe_tools(service.words));
  line("reasoning", service.words.formats.reasoning == ReasoningFormat::none
                        ? "not looked for"
                        : "read as " + format_name(service.words.formats.reasoning));
  line("limits", std::to_string(max_num_seqs) + " requests at once, " + std::to_string(config.max_queued_requests) +
                     " more wait, " + std::to_string(facts.max_num_batched_tokens) + " tokens a step");
  line("keys", service.access.guarded() ? "needed" : "none: whoever reaches the address may use it");
  line("address", http.describe());
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

void add_routes(Router& router) {
  add_health_routes(router);
  add_model_routes(router);
  add_chat_routes(router);
  add_completion_routes(router);
  add_token_routes(router);
  add_operator_routes(router);
  add_openapi_route(router);
  add_page_routes(router);
}

bool is_route(std::string_view path) {
  Router router;
  add_routes(router);
  return !router.find("GET", path).allowed.empty();
}

Status serve(const ServeConfig& config, const BackendFactory& make_backend) {
  OCTAVO_TRY(Access access, Access::create(config.access));
  OCTAVO_TRY(Words words, load_words(config));
  EngineConfig engine_config = config.engine;
  // The server's own count turns requests away; the engine's is behind it.
  engine_config.max_queued = config.max_queued_requests + engine_config.max_num_seqs;
  // Destroyed last: streams that the event loop still holds cancel in it.
  std::unique_ptr<Engine> engine;
  OCTAVO_TRY(const std::unique_ptr<HttpServer> http, HttpServer::bind(config.address, config.limits));
  if (!http->loopback() && !access.guarded())
    log::warn("open to everybody", {{"address", http->describe()}, {"remedy", "--api-key, or --host 127.0.0.1"}});
  OCTAVO_TRY(engine, Engine::create(engine_config, make_backend));
  words.vocab = engine->spec().vocab;
  words.max_model_len = engine->facts().max_model_len;
  // A step computes a token of each.
  const int max_num_seqs = std::min(engine_config.max_num_seqs, engine->facts().max_num_batched_tokens);
  Service service(*engine, words, *http, std::move(access),
                  {.max_running = max_num_seqs,
                   .max_queued = config.max_queued_requests,
                   .max_queued_tokens = config.max_queued_tokens},
                  config.policy);
  Router router;
  add_routes(router);
  ServerApp app(service, router, config.cors, config.shutdown_timeout);
  print_start(config, max_num_seqs, service, *http);
  const Status served = http->run(app, [] {
    std::fputs("ready\n", stdout);
    std::fflush(stdout);
  });
  log::info("stopped");
  return served;
}

}  // namespace octavo
