#include "app/client_flag_rows.h"

#include <algorithm>
#include <optional>

#include "app/flag_setters.h"

namespace octavo {
namespace {

constexpr unsigned kChat = bit(Command::chat);
constexpr unsigned kBenchServe = bit(Command::bench_serve);
constexpr std::int64_t kLongestText = std::int64_t{1} << 28;  // tokens

ClientConfig& client_of(Options& o) { return o.command == Command::chat ? o.chat.client : o.bench_serve.client; }
std::string& model_of(Options& o) { return o.command == Command::chat ? o.chat.model : o.bench_serve.model; }

Status set_base_url(Options& o, const std::string& text) {
  OCTAVO_TRY(client_of(o).server, parse_url(text));
  return {};
}

Set tokens(int low, int& (*target)(LoadOptions&)) {
  return count(low, kLongestText, true,
               [target](Options& o, std::int64_t v) { target(o.bench_serve.load) = static_cast<int>(v); });
}

Set text_to(std::string& (*target)(BenchServeOptions&)) {
  return any([target](Options& o, const std::string& v) { target(o.bench_serve) = v; });
}

Set switch_of(bool& (*target)(BenchServeOptions&), bool value) {
  return any([target, value](Options& o, const std::string&) { target(o.bench_serve) = value; });
}

// NAME=VALUE.
Set pair_to(std::vector<std::pair<std::string, std::string>>& (*target)(BenchServeOptions&)) {
  return [target](Options& o, const std::string& text) -> Status {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) return Error(in_quotes(text) + " is not NAME=VALUE");
    target(o.bench_serve).emplace_back(trim(text.substr(0, equals)), trim(text.substr(equals + 1)));
    return {};
  };
}

// A field of every request.
void set_field(Options& o, const std::string& key, OrderedJson value) {
  std::string& body = o.bench_serve.extra_body;
  OrderedJson fields = *parse_ordered_json(body, "fields of requests");
  fields[key] = std::move(value);
  body = to_text(fields);
}

Status set_extra_body(Options& o, const std::string& text) {
  OCTAVO_TRY(const OrderedJson fields, parse_ordered_json(text, "the value"));
  if (!fields.is_object()) return Error("the value must be a JSON object, but is " + to_text(fields));
  for (const auto& [key, value] : fields.items()) set_field(o, key, value);
  return {};
}

Status set_backend(Options& o, const std::string& text) {
  if (text != "openai" && text != "vllm" && text != "openai-chat")
    return Error(in_quotes(text) + " is not one of openai, vllm (both: completions), openai-chat");
  o.bench_serve.backend = text;
  o.bench_serve.route = text == "openai-chat" ? BenchRoute::chat : BenchRoute::completions;
  return {};
}

Status set_dataset(Options&, const std::string& text) {
  if (text != "random") return Error(in_quotes(text) + " is not offered: only random");
  return {};
}

Status set_endpoint(Options& o, const std::string& text) {
  if (!text.starts_with('/')) return Error(in_quotes(text) + " is not a path: it begins with /");
  o.bench_serve.endpoint = text;
  return {};
}

Status set_request_rate(Options& o, const std::string& text) {
  o.bench_serve.load.request_rate.reset();
  if (text == "inf") return {};
  OCTAVO_TRY(const double rate, parse_double(text));
  if (rate <= 0 || rate > 1e6) return Error(in_quotes(text) + " is not a rate: above 0 to 1000000, or inf");
  o.bench_serve.load.request_rate = rate;
  return {};
}

Status set_range_ratio(Options& o, const std::string& text) {
  OCTAVO_TRY(const double ratio, parse_double(text));
  if (ratio < 0 || ratio >= 1) return Error(in_quotes(text) + " is not a share from 0 to below 1");
  o.bench_serve.load.range_ratio = ratio;
  return {};
}

Status set_percentile_metrics(Options& o, const std::string& text) {
  const std::vector<std::string> known = result_metrics();
  auto& metrics = o.bench_serve.results.metrics;
  metrics.clear();
  for (const std::string_view part : split(text, ",")) {
    const std::string name(trim(part));
    if (std::find(known.begin(), known.end(), name) == known.end())
      return Error(in_quotes(name) + " is not one of " + join(known, ", "));
    metrics.push_back(name);
  }
  return {};
}

Status set_metric_percentiles(Options& o, const std::string& text) {
  auto& percentiles = o.bench_serve.results.percentiles;
  percentiles.clear();
  for (const std::string_view part : split(text, ",")) {
    OCTAVO_TRY(const double percent, parse_double(trim(part)));
    if (percent < 0 || percent > 100) return Error(in_quotes(part) + " is not a percentile from 0 to 100");
    percentiles.push_back(percent);
  }
  return {};
}

Status set_goodput(Options& o, const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if (colon == std::string::npos || (name != "ttft" && name != "tpot" && name != "e2el"))
    return Error(in_quotes(text) + " is not NAME:MILLISECONDS with ttft, tpot or e2el for NAME");
  OCTAVO_TRY(const double bound, parse_double(text.substr(colon + 1)));
  if (bound < 0) return Error(in_quotes(text) + " is a bound below 0");
  o.bench_serve.results.goodput[name] = bound;
  return {};
}

void no_effect_row(std::vector<FlagRow>& rows, const char* name, const char* value, const char* because) {
  rows.push_back({name, value, "", "", kBenchServe, nothing(), Effect::no_effect, because});
}

FlagRow repeated(FlagRow row) {
  row.repeats = true;
  return row;
}

void add_address_of_server_rows(std::vector<FlagRow>& rows) {
  const char* address = "the server's address; https:// for TLS, a path before /v1 if there is one";
  rows.push_back({"--base-url,--url", "URL", address, "http://127.0.0.1:8000", kChat, set_base_url});
  rows.push_back({"--base-url", "URL", address, "http://127.0.0.1:8000", kBenchServe, set_base_url});
  rows.push_back({"--host", "HOST", "the server's host, in place of --base-url", "127.0.0.1", kBenchServe,
                  any([](Options& o, const std::string& v) { client_of(o).server.host = v; })});
  rows.push_back(
      {"--port", "PORT", "the server's port, in place of --base-url", "8000", kBenchServe,
       count(1, 65535, false, [](Options& o, std::int64_t v) { client_of(o).server.port = static_cast<int>(v); })});
  const auto model = any([](Options& o, const std::string& v) { model_of(o) = v; });
  rows.push_back({"--model,--model-name", "NAME", "model to ask for, as the server names it",
                  "the first that it serves", kChat, model});
  rows.push_back(
      {"--model", "NAME", "model to ask for, as the server names it", "the first that it serves", kBenchServe, model});
  rows.push_back(
      {"--served-model-name", "NAME", "the name in requests, where it is not --model", "--model", kBenchServe, model});
  rows.push_back({"--api-key", "KEY", "key to send", "$OPENAI_API_KEY", kChat | kBenchServe,
                  any([](Options& o, const std::string& v) { client_of(o).api_key = v; })});
  rows.push_back({"--ssl-ca-certs", "FILE", "certificates (PEM) of those who may vouch for the server",
                  "what the system trusts", kChat | kBenchServe,
                  any([](Options& o, const std::string& v) { client_of(o).ca_file = v; })});
  rows.push_back({"--insecure", "", "believe every certificate", "off", kBenchServe,
                  any([](Options& o, const std::string&) { client_of(o).verify = false; })});
  rows.push_back(repeated({"--header", "NAME=VALUE", "header of every request; several", "none", kBenchServe,
                           pair_to([](BenchServeOptions & b) -> auto& { return b.client.headers; })}));
}

void add_chat_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--prompt,-p,--quick,-q", "TEXT", "the question; without it, a chat at a terminal, else all of stdin",
                  "none", kChat, any([](Options& o, const std::string& v) { o.chat.prompt = v; })});
  rows.push_back({"--system,--system-prompt", "TEXT", "system message before the conversation", "the template's own",
                  kChat, any([](Options& o, const std::string& v) { o.chat.system = v; })});
  rows.push_back({"--temperature", "NUMBER", "0 takes the best token", "the server's", kChat,
                  number(0, 100, true, [](Options& o, double v) { o.chat.temperature = v; })});
  rows.push_back({"--top-p", "NUMBER", "smallest set of tokens with this probability", "the server's", kChat,
                  number(0, 1, false, [](Options& o, double v) { o.chat.top_p = v; })});
  rows.push_back({"--top-k", "COUNT", "the most probable tokens only; 0 or -1: all", "the server's", kChat,
                  count(-1, 1 << 24, false, [](Options& o, std::int64_t v) { o.chat.top_k = static_cast<int>(v); })});
  rows.push_back(
      {"--max-tokens", "TOKENS", "longest answer", "the server's", kChat,
       count(1, INT32_MAX, true, [](Options& o, std::int64_t v) { o.chat.max_tokens = static_cast<int>(v); })});
}

void add_load_of_bench_rows(std::vector<FlagRow>& rows) {
  rows.push_back(
      {"--backend", "NAME", "openai or vllm (both: completions), or openai-chat", "openai", kBenchServe, set_backend});
  rows.push_back({"--endpoint", "PATH", "route to ask", "/v1/completions, or /v1/chat/completions for openai-chat",
                  kBenchServe, set_endpoint});
  rows.push_back(
      {"--dataset-name", "NAME", "random: prompts of random words of the model", "random", kBenchServe, set_dataset});
  rows.push_back({"--num-prompts", "COUNT", "requests in all", "1000", kBenchServe,
                  count(1, 1 << 24, true,
                        [](Options& o, std::int64_t v) { o.bench_serve.load.num_prompts = static_cast<int>(v); })});
  rows.push_back({"--random-input-len,--input-len", "TOKENS", "tokens of each prompt; about as many where text is sent",
                  "1024", kBenchServe, tokens(1, [](LoadOptions& l) -> int& { return l.input_len; })});
  rows.push_back({"--random-output-len,--output-len", "TOKENS", "tokens of each answer", "128", kBenchServe,
                  tokens(1, [](LoadOptions& l) -> int& { return l.output_len; })});
  rows.push_back({"--random-prefix-len", "TOKENS", "tokens that all prompts begin with, beside their own", "0",
                  kBenchServe, tokens(0, [](LoadOptions& l) -> int& { return l.prefix_len; })});
  rows.push_back({"--random-range-ratio", "SHARE", "lengths are spread by this share to both sides", "0", kBenchServe,
                  set_range_ratio});
  rows.push_back({"--max-concurrency", "COUNT", "requests at once; more wait here", "no bound", kBenchServe,
                  count(1, 1 << 20, true,
                        [](Options& o, std::int64_t v) { o.bench_serve.max_concurrency = static_cast<int>(v); })});
  rows.push_back(
      {"--request-rate", "RATE", "requests a second; inf: all at once", "inf", kBenchServe, set_request_rate});
  rows.push_back(
      {"--burstiness", "NUMBER",
       "shape of the gamma distribution of the gaps between requests: 1 is a Poisson process, less is burstier", "1",
       kBenchServe, number(0, 1e6, false, [](Options& o, double v) { o.bench_serve.load.burstiness = v; })});
  rows.push_back({"--seed", "NUMBER", "of prompts, lengths and arrivals", "0", kBenchServe,
                  count(0, INT64_MAX, false,
                        [](Options& o, std::int64_t v) { o.bench_serve.load.seed = static_cast<std::uint64_t>(v); })});
  rows.push_back(
      {"--num-warmups", "COUNT", "requests before the measurement", "0", kBenchServe,
       count(0, 1 << 20, false, [](Options& o, std::int64_t v) { o.bench_serve.num_warmups = static_cast<int>(v); })});
  rows.push_back({"--ready-check-timeout-sec", "SECONDS", "how long to wait for the server", "0", kBenchServe,
                  count(0, 86400, false,
                        [](Options& o, std::int64_t v) { o.bench_serve.ready_check_timeout = static_cast<int>(v); })});
}

void add_field_rows(std::vector<FlagRow>& rows) {
  const auto field = [&](const char* flag, const char* key, const char* help, double low, double high) {
    rows.push_back({flag, "NUMBER", help, "the server's", kBenchServe,
                    number(low, high, true, [key = std::string(key)](Options& o, double v) { set_field(o, key, v); })});
  };
  field("--temperature", "temperature", "0 takes the best token", 0, 100);
  field("--top-p", "top_p", "smallest set of tokens with this probability", 0, 1);
  field("--min-p", "min_p", "tokens of at least this share of the best one's probability", 0, 1);
  field("--frequency-penalty", "frequency_penalty", "of tokens by how often they came", -2, 2);
  field("--presence-penalty", "presence_penalty", "of tokens that came", -2, 2);
  field("--repetition-penalty", "repetition_penalty", "of tokens that came or were asked", 0, 100);
  rows.push_back({"--top-k", "COUNT", "the most probable tokens only; 0 or -1: all", "the server's", kBenchServe,
                  count(-1, 1 << 24, false, [](Options& o, std::int64_t v) { set_field(o, "top_k", v); })});
  rows.push_back(
      {"--logprobs", "COUNT", "log-probabilities to ask for, a token", "none", kBenchServe,
       count(0, 1 << 20, false, [](Options& o, std::int64_t v) { o.bench_serve.logprobs = static_cast<int>(v); })});
  rows.push_back({"--extra-body", "JSON", "more fields of every request", "none", kBenchServe, set_extra_body});
}

void add_result_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--percentile-metrics", "NAMES", "times to report: " + join(result_metrics(), ", "),
                  "ttft,tpot,itl,e2el", kBenchServe, set_percentile_metrics});
  rows.push_back(
      {"--metric-percentiles", "PERCENTS", "percentiles to report", "99", kBenchServe, set_metric_percentiles});
  rows.push_back(repeated({"--goodput", "NAME:MS", "bounds of ttft, tpot and e2el that a good request keeps; several",
                           "none", kBenchServe, set_goodput}));
  rows.push_back({"--save-result", "", "write the results as JSON", "off", kBenchServe,
                  switch_of([](BenchServeOptions& b) -> bool& { return b.save_result; }, true)});
  rows.push_back({"--append-result", "", "write the results as one more line of the file", "off", kBenchServe,
                  switch_of([](BenchServeOptions& b) -> bool& { return b.append_result; }, true)});
  rows.push_back({"--save-detailed", "", "with what was measured of each request", "off", kBenchServe,
                  switch_of([](BenchServeOptions& b) -> bool& { return b.results.detailed; }, true)});
  rows.push_back({"--result-dir", "FOLDER", "where to write; made if it is not there", "this folder", kBenchServe,
                  text_to([](BenchServeOptions& b) -> std::string& { return b.result_dir; })});
  rows.push_back({"--result-filename", "FILE", "what to write", "made of backend, rate, model and time", kBenchServe,
                  text_to([](BenchServeOptions& b) -> std::string& { return b.result_filename; })});
  rows.push_back({"--label", "TEXT", "name of this run in the results", "--backend", kBenchServe,
                  text_to([](BenchServeOptions& b) -> std::string& { return b.label; })});
  rows.push_back(repeated({"--metadata", "NAME=VALUE", "more to keep in the results; several", "none", kBenchServe,
                           pair_to([](BenchServeOptions & b) -> auto& { return b.metadata; })}));
  rows.push_back({"--disable-tqdm", "", "no progress bar", "off", kBenchServe,
                  switch_of([](BenchServeOptions& b) -> bool& { return b.progress; }, false)});
}

}  // namespace

void add_client_rows(std::vector<FlagRow>& rows) {
  add_address_of_server_rows(rows);
  add_chat_rows(rows);
  add_load_of_bench_rows(rows);
  add_field_rows(rows);
  add_result_rows(rows);
  no_effect_row(rows, "--ignore-eos", "", "random prompts are always answered to the full length");
  no_effect_row(rows, "--tokenizer", "NAME", "the server counts the tokens");
  no_effect_row(rows, "--tokenizer-mode", "NAME", "the server counts the tokens");
  no_effect_row(rows, "--skip-tokenizer-init", "", "the server counts the tokens");
  no_effect_row(rows, "--trust-remote-code", "", "no code of a checkpoint is ever run");
  no_effect_row(rows, "--request-id-prefix", "TEXT", "the server names its requests");
}

}  // namespace octavo
