// Options: every flag of every command, once. A row says name, help, default, what it sets, and whether it is honoured,
// accepted without effect, or refused; parsing, --help and docs/flags.md derive from the rows. Flags and environment
// are read here and nowhere else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/bench_serve.h"
#include "client/chat.h"
#include "cpu/backend.h"
#include "engine/engine.h"
#include "server/serve.h"
#include "tool/advise_kernels.h"
#include "tool/bench_kernels.h"
#include "tool/bench_latency.h"
#include "tool/bench_throughput.h"
#include "tool/bench_verbs.h"
#include "tool/eval_kld.h"
#include "tool/eval_logits.h"
#include "tool/eval_nll.h"
#include "tool/inspect.h"
#include "tool/run.h"
#include "tool/tokenize.h"

namespace octavo {

enum class Command {
  run,
  chat,
  serve,
  inspect,
  eval_logits,
  eval_nll,
  eval_kld,
  bench_latency,
  bench_sweep,
  bench_throughput,
  bench_verbs,
  bench_kernels,
  bench_serve,
  advise,
  tokenize,
  render_template,
};
enum class DeviceChoice { automatic, cpu, cuda };

struct Options {
  Command command = Command::run;
  std::string model;  // as written; resolve_model_path() makes it a path
  EngineConfig engine;
  cpu::Config cpu;
  DeviceChoice device = DeviceChoice::automatic;
  SamplingParams sampling;
  std::optional<std::string> prompt;
  std::string system;
  std::string chat_template;
  bool json = false;
  bool jsonl = false;
  bool decode = false;
  bool plain = false;
  bool add_special = false;
  std::string ids_file;
  std::string output;
  std::optional<int> decode_from;
  std::string text_file;
  std::optional<int> context;
  std::string output_json;
  std::string report_file;
  std::string kv_cache_name = "auto";  // of engine.kv_cache, as written
  KvCacheChoice reference_kv_cache;
  std::string reference_name = "auto";
  std::vector<CacheVariant> kv_caches = {{}};  // of the benches that take several
  std::vector<int> input_lens;
  int output_len = 128;
  int num_iters = 3;
  int num_iters_warmup = 1;
  int num_prompts = 100;
  int max_concurrency = 8;
  double random_range_ratio = 0;
  ServeConfig serve;  // but for what is above: engine, model, chat_template
  ChatOptions chat;
  BenchServeOptions bench_serve;
  std::string kernel_rows = "*";
  bool kernels = false;
};

// What the environment says, read once.
struct Environment {
  std::string hub_directory;   // $HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub
  std::string octavo_cache;    // $XDG_CACHE_HOME/octavo or ~/.cache/octavo
  std::string openai_api_key;  // $OPENAI_API_KEY: of clients that were given none
};
Environment read_environment();

struct Parsed {
  std::optional<Options> options;  // absent: `text` is the answer (--help, --version)
  std::string text;
};
// Errors are wrong usage (exit code 2) and name the flag.
Result<Parsed> parse_options(const std::vector<std::string>& arguments);

// docs/flags.md.
std::string flags_markdown();

}  // namespace octavo
