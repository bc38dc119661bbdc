#include "app/serve_flag_rows.h"

#include <algorithm>
#include <cctype>
#include <chrono>

#include "app/flag_setters.h"
#include "base/json.h"
#include "server/apis.h"
#include "server/tool_parsers/answer_formats.h"

namespace octavo {
namespace {

constexpr unsigned kServe = bit(Command::serve);

Set text_of(std::string& (*target)(ServeConfig&)) {
  return [target](Options& o, const std::string& value) -> Status {
    if (trim(value).empty()) return Error("the value is empty");
    target(o.serve) = value;
    return {};
  };
}

Status check_nothing(const std::string&) { return {}; }

// Each flag adds one; several may stand between commas.
Set list_of(std::vector<std::string>& (*target)(ServeConfig&), Status (*check)(const std::string&) = check_nothing) {
  return [target, check](Options& o, const std::string& value) -> Status {
    if (split(value, ",").empty()) return Error("the value is empty");
    for (const std::string_view part : split(value, ",")) {
      target(o.serve).emplace_back(trim(part));
      OCTAVO_TRY(check(target(o.serve).back()));
    }
    return {};
  };
}

// What a browser sends as Origin: "https://chat.example" or with a port, and no more.
Status check_origin(const std::string& origin) {
  const std::size_t host = origin.find("://");
  if (origin == "*" || origin == "null") return {};
  if (host == 0 || host == std::string::npos || origin.find_first_of("/ ,", host + 3) != std::string::npos ||
      origin.size() == host + 3)
    return Error(in_quotes(origin) +
                 " is not an origin: write * or one such as https://chat.example or "
                 "http://localhost:3000, without a path");
  return {};
}

// A method, or the name of a header: letters and what HTTP allows beside them.
Status check_token(const std::string& token) {
  const bool good = token == "*" || (!token.empty() && std::all_of(token.begin(), token.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '-' || c == '_';
                    }));
  return good ? Status() : Error(in_quotes(token) + " is neither * nor a name of letters, digits and dashes");
}

Status check_route(const std::string& path) {
  if (!path.starts_with('/')) return Error(in_quotes(path) + " is not a path: one begins with /");
  return is_route(path) ? Status() : Error(in_quotes(path) + " is not a route of this server; docs/http.md lists them");
}

// As vLLM: a JSON list of strings; one text alone will do too.
Set json_list_of(std::vector<std::string>& (*target)(ServeConfig&), Status (*check)(const std::string&)) {
  return [target, check](Options& o, const std::string& value) -> Status {
    target(o.serve).clear();
    Json list = Json::array({value});
    if (value.starts_with('[')) {
      OCTAVO_TRY(list, parse_json(value, "the value"));
    }
    for (const Json& entry : list) {
      if (!entry.is_string()) return Error("the value must be a JSON list of strings, but is " + to_text(list));
      OCTAVO_TRY(check(entry.get<std::string>()));
      target(o.serve).push_back(entry.get<std::string>());
    }
    return {};
  };
}

Set one_of(std::vector<std::string> names, std::string& (*target)(ServeConfig&)) {
  return [names = std::move(names), target](Options& o, const std::string& value) -> Status {
    if (std::find(names.begin(), names.end(), value) == names.end())
      return Error(in_quotes(value) + " is not one of " + join(names, ", "));
    target(o.serve) = value;
    return {};
  };
}

Set seconds_of(std::chrono::milliseconds& (*target)(ServeConfig&), bool zero) {
  return number(0, 1e6, zero, [target](Options& o, float v) {
    target(o.serve) = std::chrono::milliseconds(static_cast<std::int64_t>(static_cast<double>(v) * 1000 + 0.5));
  });
}

void add_address_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--host", "HOST", "address to listen on; 0.0.0.0 for every interface", "127.0.0.1", kServe,
                  text_of([](ServeConfig& c) -> std::string& { return c.address.host; })});
  rows.push_back(
      {"--port", "PORT", "port to listen on; 0: any free one", "8000", kServe,
       count(0, 65535, false, [](Options& o, std::int64_t v) { o.serve.address.port = static_cast<int>(v); })});
  rows.push_back({"--uds", "PATH", "a Unix socket instead of host and port", "none", kServe,
                  text_of([](ServeConfig& c) -> std::string& { return c.address.uds; })});
  rows.push_back({"--ssl-certfile", "FILE", "speak https with this certificate (PEM, with those that vouch for it)",
                  "none: http", kServe, text_of([](ServeConfig& c) -> std::string& { return c.address.cert_file; })});
  rows.push_back({"--ssl-keyfile", "FILE", "the certificate's private key (PEM, without a passphrase)",
                  "in the certificate's file", kServe,
                  text_of([](ServeConfig& c) -> std::string& { return c.address.key_file; })});
  rows.push_back({"--served-model-name",
                  "NAME",
                  "name that clients use; several by repetition or commas",
                  "MODEL as written",
                  kServe,
                  list_of([](ServeConfig& c) -> std::vector<std::string>& { return c.served_names; }),
                  Effect::honoured,
                  {},
                  true});
}

void add_access_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--api-key",
                  "KEY",
                  "key that clients must send; may be repeated",
                  "none",
                  kServe,
                  [](Options& o, const std::string& v) -> Status {
                    if (trim(v).empty()) return Error("the key is empty: leave the flag out to serve without keys");
                    o.serve.access.keys.push_back(v);
                    return {};
                  },
                  Effect::honoured,
                  {},
                  true});
  rows.push_back({"--api-key-file", "FILE", "more keys, one a line; read anew on SIGHUP", "none", kServe,
                  text_of([](ServeConfig& c) -> std::string& { return c.access.key_file; })});
  rows.push_back({"--metrics-key", "KEY", "key that /metrics needs", "none: /metrics is open", kServe,
                  text_of([](ServeConfig& c) -> std::string& { return c.access.metrics_key; })});
  rows.push_back(
      {"--open-route",
       "PATH",
       "route that needs no key; may be repeated",
       "none",
       kServe,
       list_of([](ServeConfig& c) -> std::vector<std::string>& { return c.access.open_routes; }, check_route),
       Effect::honoured,
       {},
       true});
  rows.push_back(
      {"--allowed-origins", "JSON", "origins of web pages that may call, a JSON list; [\"*\"]: any", "none", kServe,
       json_list_of([](ServeConfig& c) -> std::vector<std::string>& { return c.cors.origins; }, check_origin)});
  rows.push_back(
      {"--allowed-methods", "JSON", "methods that those may use", "[\"*\"]", kServe,
       json_list_of([](ServeConfig& c) -> std::vector<std::string>& { return c.cors.methods; }, check_token)});
  rows.push_back(
      {"--allowed-headers", "JSON", "headers that those may send", "[\"*\"]", kServe,
       json_list_of([](ServeConfig& c) -> std::vector<std::string>& { return c.cors.headers; }, check_token)});
  rows.push_back({"--allow-credentials", "", "those may send credentials", "off", kServe,
                  any([](Options& o, const std::string&) { o.serve.cors.credentials = true; })});
}

void add_load_rows(std::vector<FlagRow>& rows) {
  rows.push_back(
      {"--max-num-seqs", "COUNT", "requests that run at once", "64", kServe,
       count(1, 1 << 16, true, [](Options& o, std::int64_t v) { o.engine.max_num_seqs = static_cast<int>(v); })});
  rows.push_back(
      {"--max-itl-ms", "MILLISECONDS",
       "longest gap between two tokens of a stream while prompts are read: chunks of prompts are cut so that a "
       "step, by what steps took so far, takes no longer; 0: no bound",
       "0", kServe, number(0, 1e6, true, [](Options& o, float v) { o.engine.max_itl_ms = v; })});
  rows.push_back(
      {"--mixed-step-tokens", "TOKENS",
       "tokens of a step that streams wait for and that reads prompts too, of which prompts get a quarter at least; "
       "0: as many as any step",
       "64 on the processor without --max-itl-ms, otherwise 0", kServe,
       count(0, 1 << 20, true, [](Options& o, std::int64_t v) { o.engine.mixed_step_tokens = static_cast<int>(v); })});
  rows.push_back({"--long-prefill-token-threshold", "TOKENS",
                  "tokens of one prompt in a step, so that others' fit beside a long one's; 0: as many as the step has",
                  "0", kServe, count(0, 1 << 20, true, [](Options& o, std::int64_t v) {
                    o.engine.long_prefill_token_threshold = static_cast<int>(v);
                  })});
  rows.push_back(
      {"--max-num-queued-reqs", "COUNT", "requests that may wait; more are answered 429", "1024", kServe,
       count(0, 1 << 24, true, [](Options& o, std::int64_t v) { o.serve.max_queued_requests = static_cast<int>(v); })});
  rows.push_back(
      {"--max-num-queued-tokens", "TOKENS", "prompt tokens that may wait; 0: no bound", "0", kServe,
       count(0, std::int64_t{1} << 40, true, [](Options& o, std::int64_t v) { o.serve.max_queued_tokens = v; })});
  rows.push_back(
      {"--request-timeout", "SECONDS", "longest time that a request may take; 0: no bound", "0", kServe,
       seconds_of([](ServeConfig& c) -> std::chrono::milliseconds& { return c.policy.request_timeout; }, true)});
  rows.push_back({"--shutdown-timeout", "SECONDS", "time for running requests to finish after SIGTERM", "30", kServe,
                  seconds_of([](ServeConfig& c) -> std::chrono::milliseconds& { return c.shutdown_timeout; }, true)});
  rows.push_back({"--engine-hang-timeout", "SECONDS", "an engine with work that ends no step for so long is unhealthy",
                  "300", kServe,
                  seconds_of([](ServeConfig& c) -> std::chrono::milliseconds& { return c.policy.hang_bound; }, false)});
  rows.push_back(
      {"--ping-interval", "SECONDS", "comments on a stream that has nothing else to say", "10", kServe,
       seconds_of([](ServeConfig& c) -> std::chrono::milliseconds& { return c.policy.ping_interval; }, false)});
}

void add_limit_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--max-connections", "COUNT", "connections at once", "4096", kServe,
                  count(1, 1 << 20, true,
                        [](Options& o, std::int64_t v) { o.serve.limits.max_connections = static_cast<int>(v); })});
  rows.push_back({"--max-header-bytes", "BYTES", "longest headers of a request", "64K", kServe,
                  count(1024, 1 << 24, true, [](Options& o, std::int64_t v) {
                    o.serve.limits.max_header_bytes = static_cast<std::size_t>(v);
                  })});
  rows.push_back({"--max-body-bytes", "BYTES", "longest body of a request", "64M", kServe,
                  count(1024, std::int64_t{1} << 40, true, [](Options& o, std::int64_t v) {
                    o.serve.limits.max_body_bytes = static_cast<std::size_t>(v);
                  })});
  rows.push_back({"--max-buffered-bytes", "BYTES", "bodies that are held at once, in sum", "512M", kServe,
                  count(1024, std::int64_t{1} << 40, true, [](Options& o, std::int64_t v) {
                    o.serve.limits.max_buffered_bytes = static_cast<std::size_t>(v);
                  })});
  rows.push_back(
      {"--header-timeout", "SECONDS", "time for a request's headers to come", "30", kServe,
       seconds_of([](ServeConfig& c) -> std::chrono::milliseconds& { return c.limits.header_timeout; }, false)});
  rows.push_back(
      {"--body-timeout", "SECONDS", "time for a request's body, beside a second for each 16 KiB", "30", kServe,
       seconds_of([](ServeConfig& c) -> std::chrono::milliseconds& { return c.limits.body_timeout; }, false)});
  rows.push_back(
      {"--reader-timeout", "SECONDS", "a client that takes no byte for so long is cut off", "60", kServe,
       seconds_of([](ServeConfig& c) -> std::chrono::milliseconds& { return c.limits.reader_timeout; }, false)});
  rows.push_back(
      {"--idle-timeout", "SECONDS", "a connection without a request is closed after this", "120", kServe,
       seconds_of([](ServeConfig& c) -> std::chrono::milliseconds& { return c.limits.idle_timeout; }, false)});
}

void add_answer_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--generation-config", "FROM",
                  "sampling of requests that say nothing: auto (the checkpoint's generation_config.json) or vllm "
                  "(temperature 1, nothing else)",
                  "auto", kServe, [](Options& o, const std::string& v) -> Status {
                    if (v != "auto" && v != "vllm") return Error(in_quotes(v) + " is not one of auto, vllm");
                    o.serve.recommended_sampling = v == "auto";
                    return {};
                  }});
  rows.push_back({"--strict-max-tokens", "",
                  "refuse max_tokens that the context cannot hold beside the prompt, instead of cutting them", "off",
                  kServe, any([](Options& o, const std::string&) { o.serve.policy.strict_max_tokens = true; })});
  rows.push_back({"--tool-call-parser", "NAME", "how calls of tools are read: " + join(call_parser_names(), ", "),
                  "auto: as the chat template shows them", kServe,
                  one_of(call_parser_names(), [](ServeConfig& c) -> std::string& { return c.call_parser; })});
  rows.push_back({"--reasoning-parser", "NAME",
                  "how reasoning is told from content: " + join(reasoning_parser_names(), ", "),
                  "auto: as the chat template shows it", kServe,
                  one_of(reasoning_parser_names(), [](ServeConfig& c) -> std::string& { return c.reasoning_parser; })});
  rows.push_back({"--trust-request-chat-template", "", "requests may bring a chat template of their own", "off", kServe,
                  any([](Options& o, const std::string&) { o.serve.trust_request_template = true; })});
  rows.push_back({"--enable-log-requests", "", "a line for each answered request, without any of its text", "off",
                  kServe, any([](Options& o, const std::string&) { o.serve.policy.log_requests = true; })});
}

}  // namespace

void add_serve_rows(std::vector<FlagRow>& rows) {
  add_address_rows(rows);
  add_access_rows(rows);
  add_load_rows(rows);
  add_limit_rows(rows);
  add_answer_rows(rows);
}

}  // namespace octavo
