#include "app/flag_rows.h"

#include <array>

#include "app/client_flag_rows.h"
#include "app/compatible_flag_rows.h"
#include "app/flag_setters.h"
#include "app/instrument_flag_rows.h"
#include "app/serve_flag_rows.h"
#include "base/json.h"
#include "base/strings.h"

namespace octavo {
namespace {

// A word out of a list -> a value.
template <class T, std::size_t N>
Set choice(T& (*target)(Options&), const std::array<std::pair<const char*, T>, N>& words) {
  return [target, words](Options& options, const std::string& text) -> Status {
    std::vector<std::string> known;
    for (const auto& [word, value] : words) {
      known.emplace_back(word);
      if (text == word) {
        target(options) = value;
        return {};
      }
    }
    return Error(in_quotes(text) + " is not one of " + join(known, ", "));
  };
}

template <class Store>
Set json_object(Store store) {
  return [=](Options& options, const std::string& text) -> Status {
    OCTAVO_TRY(Json value, parse_json(text, "the value"));
    if (!value.is_object()) return Error("the value must be a JSON object, but is " + to_text(value));
    store(options, std::move(value));
    return {};
  };
}

Status set_block_size(Options& options, const std::string& text) {
  OCTAVO_TRY(const std::int64_t value, parse_int(text));
  if (value < 8 || value > 1024 || (value & (value - 1)) != 0)
    return Error(in_quotes(text) + " is not a page size: a power of two from 8 to 1024");
  options.engine.page_size = static_cast<int>(value);
  return {};
}

Status set_dtype(Options& options, const std::string& text) {
  if (text == "auto")
    options.engine.compute.reset();
  else if (text == "bfloat16")
    options.engine.compute = DType::bf16;
  else if (text == "float32" || text == "float")
    options.engine.compute = DType::f32;
  else if (text == "float16" || text == "half")
    return Error("float16 activations are not supported: use bfloat16 or float32");
  else
    return Error(in_quotes(text) + " is not one of auto, bfloat16, float32");
  return {};
}

Status set_max_model_len(Options& options, const std::string& text) {
  options.engine.max_model_len.reset();
  if (text == "auto") return {};
  OCTAVO_TRY(const std::int64_t value, parse_size(text));
  if (value < 1) return Error(in_quotes(text) + " is not a length: at least 1, or auto");
  options.engine.max_model_len = value;
  return {};
}

Status set_kv_cache_dtype(Options& options, const std::string& text) {
  const KvCacheChoice before = options.engine.kv_cache;
  OCTAVO_TRY(options.engine.kv_cache, parse_kv_cache_dtype(text));
  options.engine.kv_cache.transform = before.transform;
  options.engine.kv_cache.rope = before.rope;
  options.kv_cache_name = text;
  return {};
}

Status set_kv_rope_dtype(Options& options, const std::string& text) {
  return parse_kv_rope_dtype(text, options.engine.kv_cache);
}

Status set_skip_layers(Options& options, const std::string& text) {
  if (trim(text).empty()) return Error("the value names no layer");
  options.engine.skip_layers.push_back(text);
  return {};
}

Status set_isa(Options& options, const std::string& text) {
  OCTAVO_TRY(options.cpu.isa, cpu::parse_isa(text));
  return {};
}

Status set_top_k(Options& options, const std::string& text) {
  OCTAVO_TRY(const std::int64_t value, parse_int(text));
  if (value < -1 || value > (1 << 24))
    return Error(in_quotes(text) + " is not a count: -1 or 0 for all tokens, or how many");
  options.sampling.top_k = static_cast<int>(value);
  return {};
}

constexpr std::array<std::pair<const char*, TransformChoice>, 3> kTransforms = {
    {{"auto", TransformChoice::automatic}, {"none", TransformChoice::none}, {"hadamard", TransformChoice::hadamard}}};
constexpr std::array<std::pair<const char*, LoadFormat>, 4> kLoadFormats = {{{"auto", LoadFormat::automatic},
                                                                             {"safetensors", LoadFormat::safetensors},
                                                                             {"gguf", LoadFormat::gguf},
                                                                             {"dummy", LoadFormat::dummy}}};
constexpr std::array<std::pair<const char*, DeviceChoice>, 3> kDevices = {
    {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}}};

TransformChoice& transform_of(Options& o) { return o.engine.kv_cache.transform; }
LoadFormat& load_format_of(Options& o) { return o.engine.load_format; }
DeviceChoice& device_of(Options& o) { return o.device; }

void add_cache_rows(std::vector<FlagRow>& rows) {
  rows.push_back({"--kv-cache-dtype", "DTYPE",
                  "numbers of the KV cache: auto (the compute dtype), bfloat16, float32, fp8 (= fp8_e4m3), fp8_e5m2, "
                  "int8, or K:V such as int8:fp8",
                  "auto", kEngineCommands & ~kBenchMany, set_kv_cache_dtype});
  rows.push_back({"--kv-cache-transform", "BASIS",
                  "basis in which K is kept: auto (hadamard for every 8-bit K whose head size has one), none, hadamard",
                  "auto", kEngineCommands, choice(transform_of, kTransforms)});
  rows.push_back({"--kv-cache-rope-dtype", "DTYPE",
                  "numbers of the rope keys of a latent cache: auto (bfloat16 where the latent has 8 bits, else its "
                  "kind), bfloat16, float32, fp8, fp8_e5m2",
                  "auto", kEngineCommands, set_kv_rope_dtype});
  const std::string skipped =
      "layers whose cache keeps the compute dtype: indices, ranges 2-5, negative indices, sliding_window, "
      "full_attention; separated by commas or spaces";
  rows.push_back(
      {"--kv-cache-dtype-skip-layers", "LAYERS", skipped, "none", kEngineCommands & ~kBenchMany, set_skip_layers});
  rows.push_back({"--kv-cache-dtype-skip-layers", "LAYERS",
                  skipped + "; each list (several are separated by ;) is measured with each cache dtype but auto, "
                            "beside that dtype in all layers",
                  "none", kBenchMany, set_skip_layers});
  rows.push_back({"--max-model-len", "TOKENS",
                  "longest prompt and answer together; auto: the model's length, or what fits", "auto", kEngineCommands,
                  set_max_model_len});
  rows.push_back(
      {"--block-size", "TOKENS", "tokens a page of the cache, a power of two", "64", kEngineCommands, set_block_size});
  rows.push_back({"--kv-cache-memory-bytes", "BYTES", "memory for the KV cache, of each rank",
                  "on a GPU what --gpu-memory-utilization leaves, else by --max-num-seqs and --max-model-len, at most "
                  "a quarter of "
                  "what is free",
                  kEngineCommands, count(1, std::int64_t{1} << 50, true, [](Options& o, std::int64_t v) {
                    o.engine.kv_cache_bytes = v;
                  })});
  rows.push_back({"--gpu-memory-utilization", "SHARE",
                  "share of the whole GPU's memory that this process may use; without effect on the processor and with "
                  "--kv-cache-memory-bytes",
                  "0.9", kEngineCommands,
                  number(0, 1, false, [](Options& o, float v) { o.engine.gpu_memory_utilization = v; })});
  rows.push_back({"--enable-prefix-caching", "", "reuse pages of equal beginnings", "on", kEngineCommands & ~kBench,
                  any([](Options& o, const std::string&) { o.engine.prefix_caching = true; })});
  rows.push_back({"--no-enable-prefix-caching", "", "compute every prompt anew", "off", kEngineCommands & ~kBench,
                  any([](Options& o, const std::string&) { o.engine.prefix_caching = false; })});
  rows.push_back({"--calculate-kv-scales", "", "", "off", kEngineCommands, nothing(), Effect::refused,
                  "scales from one warm-up batch are wrong as often as right; a Hadamard basis or int8 needs none, and "
                  "a checkpoint's are used"});
}

void add_engine_rows(std::vector<FlagRow>& rows) {
  const unsigned checkpoint = kEngineCommands | bit(Command::inspect);
  rows.push_back(
      {"--dtype", "DTYPE", "activations: auto (bfloat16), bfloat16, float32", "auto", kEngineCommands, set_dtype});
  rows.push_back({"--load-format", "FORMAT", "auto, safetensors, gguf, or dummy (random weights of the config's shape)",
                  "auto", checkpoint, choice(load_format_of, kLoadFormats)});
  rows.push_back({"--hf-overrides", "JSON", "keys of config.json to replace", "none", checkpoint,
                  json_object([](Options& o, Json v) { o.engine.overrides.hf_overrides = std::move(v); })});
  rows.push_back({"--rope-scaling", "JSON", "rope to use instead of the checkpoint's, in its own keys", "none",
                  checkpoint, json_object([](Options& o, Json v) { o.engine.overrides.rope_scaling = std::move(v); })});
  rows.push_back({"--max-num-batched-tokens", "TOKENS", "tokens of one step; longer prompts are prefilled in chunks",
                  "512 on the processor, 2048 on a GPU; at least twice --max-num-seqs", kEngineCommands,
                  count(1, 1 << 20, true,
                        [](Options& o, std::int64_t v) { o.engine.max_num_batched_tokens = static_cast<int>(v); })});
  rows.push_back(
      {"--max-num-seqs", "COUNT", "requests that run at once", "1", kEngineCommands & ~bit(Command::serve),
       count(1, 1 << 16, true, [](Options& o, std::int64_t v) { o.engine.max_num_seqs = static_cast<int>(v); })});
  rows.push_back(
      {"--seed", "NUMBER", "seed of requests that bring none, and of a bench's prompts and lengths", "0",
       kEngineCommands | bit(Command::bench_kernels),
       count(0, INT64_MAX, false, [](Options& o, std::int64_t v) { o.engine.seed = static_cast<std::uint64_t>(v); })});
  rows.push_back({"--deterministic", "",
                  "the same bits for a request alone or in a batch, whole or in chunks, prefix hit or miss", "off",
                  kEngineCommands,
                  any([](Options& o, const std::string&) { o.engine.deterministic = o.cpu.deterministic = true; })});
  rows.push_back({"--device", "DEVICE", "auto (a usable GPU, else the processor), cpu or cuda", "auto",
                  checkpoint | bit(Command::bench_kernels), choice(device_of, kDevices)});
  rows.push_back({"--threads", "COUNT", "threads of the processor's arithmetic, of all ranks together",
                  "the CPUs this process may use", checkpoint,
                  count(1, 1024, false, [](Options& o, std::int64_t v) { o.cpu.num_threads = static_cast<int>(v); })});
  rows.push_back(
      {"--cpu-isa", "ISA",
       "instruction set: auto, plain, avx2, avx512, avx512vnni or amx; one that the processor lacks is refused",
       "the best that the processor has", checkpoint, set_isa});
  rows.push_back({"--enable-chunked-prefill", "", "", "on", kEngineCommands, nothing(), Effect::no_effect,
                  "long prompts are always prefilled in chunks"});
  rows.push_back({"--trust-remote-code", "", "", "off", checkpoint, nothing(), Effect::no_effect,
                  "no code of a checkpoint is ever run"});
  rows.push_back(
      {"--tensor-parallel-size", "COUNT",
       "ranks that share the model's heads, experts and vocabulary: threads, with --device cpu alone; -tp for short",
       "1", checkpoint,
       count(1, 1024, false, [](Options& o, std::int64_t v) { o.engine.tensor_parallel = static_cast<int>(v); })});
}

void add_run_rows(std::vector<FlagRow>& rows) {
  const unsigned run = bit(Command::run);
  rows.push_back({"--prompt,-p", "TEXT", "the question; without it, a chat at a terminal, else all of stdin", "none",
                  run, any([](Options& o, const std::string& v) { o.prompt = v; })});
  rows.push_back({"--system", "TEXT", "system message before the conversation", "the template's own", run,
                  any([](Options& o, const std::string& v) { o.system = v; })});
  rows.push_back({"--temperature", "NUMBER", "0 takes the best token", "1", run,
                  number(0, 100, true, [](Options& o, float v) { o.sampling.temperature = v; })});
  rows.push_back({"--top-p", "NUMBER", "smallest set of tokens with this probability", "1", run,
                  number(0, 1, false, [](Options& o, float v) { o.sampling.top_p = v; })});
  rows.push_back({"--top-k", "COUNT", "the most probable tokens only; 0 or -1: all", "0", run, set_top_k});
  rows.push_back(
      {"--max-tokens", "TOKENS", "longest answer", "what the context holds", run,
       count(1, INT32_MAX, true, [](Options& o, std::int64_t v) { o.sampling.max_tokens = static_cast<int>(v); })});
}

void add_word_rows(std::vector<FlagRow>& rows) {
  const unsigned tokenize = bit(Command::tokenize);
  const unsigned words = tokenize | bit(Command::render_template);
  rows.push_back({"--chat-template", "TEMPLATE", "a Jinja file, or the template itself", "the checkpoint's",
                  bit(Command::run) | bit(Command::serve) | bit(Command::render_template) | bit(Command::inspect),
                  any([](Options& o, const std::string& v) { o.chat_template = v; })});
  rows.push_back({"--decode", "", "a JSON list of ids on stdin to text", "off", tokenize,
                  any([](Options& o, const std::string&) { o.decode = true; })});
  rows.push_back({"--plain", "", "special tokens written in the text are plain text", "off", tokenize,
                  any([](Options& o, const std::string&) { o.plain = true; })});
  rows.push_back({"--add-special-tokens", "", "add what the model expects around a text, mostly its BOS", "off",
                  tokenize, any([](Options& o, const std::string&) { o.add_special = true; })});
  rows.push_back({"--jsonl", "", "one JSON object a line in, one a line out", "off", words,
                  any([](Options& o, const std::string&) { o.jsonl = true; })});
  rows.push_back({"--json", "", "one JSON object instead of text", "off", bit(Command::inspect),
                  any([](Options& o, const std::string&) { o.json = true; })});
}

void add_eval_rows(std::vector<FlagRow>& rows) {
  const unsigned logits = bit(Command::eval_logits);
  rows.push_back({"--input-ids-file", "FILE", "a JSON list of token ids", "required", logits,
                  any([](Options& o, const std::string& v) { o.ids_file = v; })});
  rows.push_back({"--output", "FILE", "safetensors file to write: logits, float32 [ids, vocabulary]", "required",
                  logits, any([](Options& o, const std::string& v) { o.output = v; })});
  rows.push_back({"--decode-from", "N", "prefill the first N tokens and feed each later one as a decode step",
                  "all are prefilled", logits | kEvalText,
                  count(1, INT32_MAX, false, [](Options& o, std::int64_t v) { o.decode_from = static_cast<int>(v); })});
}

}  // namespace

std::vector<FlagRow> flag_rows() {
  std::vector<FlagRow> rows;
  add_engine_rows(rows);
  add_cache_rows(rows);
  add_run_rows(rows);
  add_serve_rows(rows);
  add_compatible_rows(rows);
  add_word_rows(rows);
  add_eval_rows(rows);
  add_instrument_rows(rows);
  add_client_rows(rows);
  return rows;
}

}  // namespace octavo
