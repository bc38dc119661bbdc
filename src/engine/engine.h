// Engine: the surface for embedding. Load a model, submit requests from any thread, read tokens from their streams.
//
//   auto engine = Engine::create(config, factory);      // loads, measures, sizes the cache, prints what it chose
//   auto stream = (*engine)->submit(request);           // or an Error: malformed, too long (both numbers), queue full
//   while (auto event = (*stream)->next()) ...
//
// One thread of the engine's own runs plan -> run -> commit while there is work. Everything else is thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "engine/request.h"
#include "engine/token_stream.h"
#include "kv/format.h"
#include "kv/scales.h"
#include "kv/view.h"
#include "model/model.h"
#include "ops/backend.h"

namespace octavo {

// Flags as given; "auto" stays auto here. Engine::create resolves it into EngineFacts and logs each choice with its
// reason.
struct EngineConfig {
  std::string model_path;
  LoadFormat load_format = LoadFormat::automatic;
  ConfigOverrides overrides;
  std::optional<DType> compute;               // --dtype; auto: bf16
  KvCacheChoice kv_cache;                     // --kv-cache-dtype, --kv-cache-transform
  std::vector<std::string> skip_layers;       // --kv-cache-dtype-skip-layers
  std::optional<std::int64_t> max_model_len;  // auto: the model's, or what fits
  int page_size = 64;                         // --block-size
  std::optional<std::int64_t>
      kv_cache_bytes;                   // --kv-cache-memory-bytes; auto: enough for max_num_seqs or what is there
  float gpu_memory_utilization = 0.9f;  // share of a device's own memory that this process may use
  bool fill_memory = true;              // auto takes that share whole; otherwise enough for max_num_seqs
  // Tokens of one step; absent: 2048 where a device computes, and 512 where the processor does: its steps take longer,
  // larger ones are no faster a token, and running streams wait for each.
  std::optional<int> max_num_batched_tokens;
  int max_num_seqs = 64;
  int long_prefill_token_threshold = 0;  // tokens of one prompt in a step; 0: as many as the step has
  double max_itl_ms = 0;  // --max-itl-ms: chunks of prompts are cut so that streams wait no longer; 0: no bound
  // Tokens of a step that streams wait for and that reads prompts too; 0: as many as any. Absent: 64 where the processor
  // computes, whose products are no slower a token then, and 0 under max_itl_ms or where a device computes.
  std::optional<int> mixed_step_tokens = 0;
  int max_queued = 1024;
  bool prefix_caching = true;
  std::uint64_t seed = 0;
  bool deterministic = false;
  int tensor_parallel = 1;  // ranks that share the model; sizes in bytes above are of each of them
};

struct LayerFacts {
  KvFormat format;  // on one rank
  ScaleSource scale_source = ScaleSource::uncalibrated;
  bool per_head_scales = false;
  bool has_cache = false;
};

// What the engine decided, once.
struct EngineFacts {
  DType compute = DType::bf16;
  int max_model_len = 0;
  int page_size = 0;
  int max_num_batched_tokens = 0;
  double max_itl_ms = 0;                // as EngineConfig's
  std::int64_t capacity_tokens = 0;     // tokens of full-lifetime layers that fit at once: the one number
  std::string capacity_derivation;      // "1,024 pages x 64 tokens = 65,536 tokens; 720.0 MiB = 65,536 x 11,520 bytes"
  int num_ranks = 1;
  // Of all ranks together.
  std::int64_t kv_bytes_per_token = 0;  // all layers of unlimited lifetime
  std::size_t kv_cache_bytes = 0;
  std::size_t activation_bytes = 0;
  std::size_t weight_bytes = 0;
  double load_seconds = 0;
  std::vector<LayerFacts> layers;
  std::vector<std::string> kv_report;  // lines of the report at start, equal layers folded
};

struct LayerStats {
  KvCounters counters;
};
// How many observations were at most edges[i] and above the edge before; the last count has no edge.
struct StepHistogram {
  std::array<std::uint64_t, 14> counts{};
  double sum = 0;
};
constexpr std::array<double, 13> kStepTokenEdges = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr std::array<double, 13> kStepSecondEdges = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10};

struct EngineStats {
  int running = 0;
  int waiting = 0;
  std::int64_t pages_total = 0, pages_held = 0, pages_cached = 0, pages_free = 0;  // of the full group
  // Of a state group: one for each sequence and those of the snapshots that are in use, snapshots that can be evicted.
  std::int64_t records_total = 0, records_held = 0, records_cached = 0;
  std::uint64_t steps = 0;
  double host_seconds = 0;  // the engine's thread at work beside the device's: planning, launching, committing
  std::uint64_t prompt_tokens = 0, cached_prompt_tokens = 0, generated_tokens = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prefill_tokens = 0;  // of prompts, computed; those computed again after a preemption too
  double prefill_seconds = 0;        // of steps that computed any of them
  double prefill_rate = 0;           // tokens a second in the last of those steps
  StepHistogram step_tokens, step_seconds;
  std::vector<LayerStats> layers;  // saturation and amax by layer
};

struct LoadedModel;  // engine/local_engine.h: each rank's model, its weights and its backend
Result<std::shared_ptr<LoadedModel>> load_model(const EngineConfig& config, const BackendFactory& make_backends);

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const EngineConfig& config, const BackendFactory& make_backends);
  // Over a model that is loaded already, so that caches can be compared over one load of the weights. Engines that
  // share a model must not work at the same time. Of `config`, what load_model() read is not looked at again.
  static Result<std::unique_ptr<Engine>> create(const EngineConfig& config, std::shared_ptr<LoadedModel> model);
  virtual ~Engine() = default;  // cancels what runs, joins the thread

  virtual const ModelSpec& spec() const = 0;
  virtual const EngineFacts& facts() const = 0;
  virtual EngineStats stats() const = 0;
  virtual Status alive() const = 0;  // or the sentence with which every later request is refused

  virtual Result<std::unique_ptr<TokenStream>> submit(Request request) = 0;
  virtual void reset_prefix_cache() = 0;

  // Logits of every position of one sequence through the ordinary path (paged cache, chunks of max_num_batched_tokens);
  // from position decode_from on each token is fed as a decode step. f32 [ids.size() - first_row, vocab], row-major:
  // the rows from first_row on. What an earlier call computed of the same beginning is taken from the prefix cache, so
  // a long text can be walked in blocks of rows. For `eval`.
  virtual Result<std::vector<float>> logits(const std::vector<std::int32_t>& ids, std::optional<int> decode_from,
                                            int first_row = 0) = 0;
};

}  // namespace octavo
