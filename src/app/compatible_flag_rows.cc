#include "app/compatible_flag_rows.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "app/flag_setters.h"

namespace octavo {
namespace {

constexpr unsigned kServer = bit(Command::serve);

struct Taken {
  const char* name;
  const char* value;  // empty: a switch
  const char* because;
};

// Without effect.
constexpr Taken kWithout[] = {
    {"--disable-log-requests", "", "requests are logged with --enable-log-requests only"},
    {"--no-enable-log-requests", "", "requests are logged with --enable-log-requests only"},
    {"--disable-log-stats", "", "statistics are not logged; /metrics has them"},
    {"--disable-uvicorn-access-log", "", "there is no access log"},
    {"--uvicorn-log-level", "LEVEL", "there is no second log"},
    {"--log-config-file", "FILE", "the log is on stderr, a line an event"},
    {"--enforce-eager", "", "recordings of steps change no result"},
    {"--compilation-config", "JSON", "nothing is compiled at start, and recordings of steps change no result"},
    {"--optimization-level,-O", "LEVEL", "nothing is compiled at start"},
    {"--cuda-graph-sizes", "SIZES", "which steps are recorded is the device's choice, and changes no result"},
    {"--max-seq-len-to-capture", "TOKENS", "which steps are recorded is the device's choice, and changes no result"},
    {"--async-scheduling", "", "a device that works by itself always has its next step planned"},
    {"--no-async-scheduling", "", "a device that works by itself always has its next step planned"},
    {"--stream-interval", "TOKENS", "each token is sent as it comes, and several together to a reader that is slow"},
    {"--scheduling-policy", "POLICY", "priorities always count, and callers of one priority share"},
    {"--max-num-partial-prefills", "COUNT",
     "as many prompts share a step as fit; --long-prefill-token-threshold bounds each one's part"},
    {"--max-long-partial-prefills", "COUNT",
     "as many prompts share a step as fit; --long-prefill-token-threshold bounds each one's part"},
    {"--swap-space", "GIB", "preempted requests are computed again"},
    {"--prefix-caching-hash-algo", "NAME", "there is one"},
    {"--disable-custom-all-reduce", "", "ranks add up in one way"},
    {"--disable-frontend-multiprocessing", "", "there is one process"},
    {"--distributed-executor-backend", "NAME", "there is one process"},
    {"--api-server-count", "COUNT", "one thread serves all connections"},
    {"--attention-backend", "NAME", "each step has the kernel that is made for its shape"},
    {"--model-impl", "NAME", "there is one"},
    {"--quantization,-q", "NAME", "weights are as the checkpoint stores them, and its config says how"},
    {"--tokenizer", "PATH", "the checkpoint's own is used"},
    {"--tokenizer-mode", "MODE", "there is one tokenizer"},
    {"--download-dir", "FOLDER", "octavo downloads nothing"},
    {"--hf-token", "TOKEN", "octavo downloads nothing"},
    {"--max-parallel-loading-workers", "COUNT", "files are mapped"},
    {"--safetensors-load-strategy", "NAME", "files are mapped"},
    {"--limit-mm-per-prompt", "JSON", "prompts are text"},
    {"--mm-processor-kwargs", "JSON", "prompts are text"},
    {"--language-model-only", "", "prompts are text"},
    {"--chat-template-content-format", "FORMAT", "text and lists of text parts are both taken, whatever the template"},
    {"--guided-decoding-backend", "NAME", "answers are not constrained yet: a request that asks for it is refused"},
    {"--structured-outputs-config", "JSON", "answers are not constrained yet: a request that asks for it is refused"},
    {"--max-logprobs", "COUNT", "a request may ask for 20"},
    {"--enable-server-load-tracking", "", "/load is always there"},
    {"--enable-prompt-tokens-details", "", "usage always has them"},
    {"--enable-tokenizer-info-endpoint", "", "/tokenizer_info is always there"},
    {"--enable-request-id-headers", "", "every answer has X-Request-Id"},
    {"--enable-auto-tool-choice", "", "calls of tools are read wherever a request brings tools"},
    {"--enable-ssl-refresh", "", "the certificate is read anew on SIGHUP"},
    {"--disable-fastapi-docs", "", "there are none; /openapi.json describes the routes"},
    {"--root-path", "PATH", "the page's addresses are relative, so any path in front of them will do"},
    {"--h11-max-incomplete-event-size", "BYTES", "--max-header-bytes bounds a request's headers"},
    {"--h11-max-header-count", "COUNT", "--max-header-bytes bounds a request's headers"},
};

struct OneMeaning {
  const char* name;
  const char* value;
  const char* accepted;  // between commas
  const char* because;
};

// What they say is so already; with another value they are refused.
constexpr OneMeaning kOneMeaning[] = {
    {"--pipeline-parallel-size", "COUNT", "1",
     "layers are not shared among ranks: --tensor-parallel-size shares heads"},
    {"--data-parallel-size", "COUNT", "1", "a process serves one copy of the model: start several behind a router"},
    {"--decode-context-parallel-size", "COUNT", "1", "a sequence's cache is not shared among ranks by position"},
    {"--cpu-offload-gb", "GIB", "0", "weights stay on the device"},
    {"--revision", "NAME", "main", "octavo downloads nothing: name the folder of another revision as MODEL"},
    {"--tokenizer-revision", "NAME", "main", "the checkpoint's own tokenizer is used"},
    {"--runner", "NAME", "auto,generate", "octavo generates text"},
    {"--task", "NAME", "auto,generate", "octavo generates text"},
    {"--convert", "NAME", "auto,none", "octavo generates text"},
    {"--response-role", "ROLE", "assistant", "answers are an assistant's"},
    {"--logprobs-mode", "MODE", "raw_logprobs", "log-probabilities are those before temperature and bans"},
};

// What cannot be left out without another result.
constexpr Taken kNotThere[] = {
    {"--ssl-ca-certs", "FILE", "clients are known by their key, not by a certificate"},
    {"--ssl-cert-reqs", "NUMBER", "clients are known by their key, not by a certificate"},
    {"--enable-lora", "", "adapters are not supported"},
    {"--lora-modules", "LIST", "adapters are not supported"},
    {"--speculative-config", "JSON", "no tokens are guessed ahead"},
    {"--kv-transfer-config", "JSON", "a server computes and keeps its own cache"},
    {"--kv-events-config", "JSON", "there are no events of the cache; /kv_event_sources says so"},
    {"--middleware", "NAME", "octavo runs no Python"},
    {"--skip-tokenizer-init", "", "a server needs its tokenizer"},
    {"--config", "FILE", "write its flags on the command line"},
    {"--num-gpu-blocks-override", "COUNT", "--kv-cache-memory-bytes sets how much the cache holds"},
    {"--override-generation-config", "JSON", "requests say how they want to be sampled, else --generation-config does"},
    {"--default-chat-template-kwargs", "JSON", "requests bring their own chat_template_kwargs"},
    {"--enable-force-include-usage", "", "a stream tells its usage where stream_options ask for it"},
    {"--return-tokens-as-token-ids", "", "requests ask for it by the field return_tokens_as_token_ids"},
};

// "1", "auto or generate".
std::string choices(const OneMeaning& flag) {
  std::string text;
  for (const std::string_view choice : split(flag.accepted, ","))
    text += (text.empty() ? "" : " or ") + std::string(choice);
  return text;
}

Set one_meaning(const OneMeaning& flag) {
  return [flag](Options&, const std::string& value) -> Status {
    const auto accepted = split(flag.accepted, ",");
    if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) return {};
    return Error(in_quotes(value) + " is not " + choices(flag) + ": " + flag.because);
  };
}

}  // namespace

void add_compatible_rows(std::vector<FlagRow>& rows) {
  for (const Taken& flag : kWithout)
    rows.push_back({flag.name, flag.value, "", "", kServer, nothing(), Effect::no_effect, flag.because});
  for (const OneMeaning& flag : kOneMeaning)
    rows.push_back({flag.name, flag.value, "", "", kServer, one_meaning(flag), Effect::no_effect,
                    choices(flag) + " alone: " + flag.because});
  for (const Taken& flag : kNotThere)
    rows.push_back({flag.name, flag.value, "", "", kServer, nothing(), Effect::refused, flag.because});
}

}  // namespace octavo
