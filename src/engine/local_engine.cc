#include "engine/local_engine.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <optional>
#include <utility>

#include "base/log.h"
#include "engine/cache_layout.h"
#include "engine/engine_loop.h"
#include "engine/memory_plan.h"
#include "engine/request_check.h"
#include "engine/runners.h"
#include "engine/step_profile.h"

namespace octavo {
namespace {

// Rows of logits beyond one a sequence that a step has memory for: prompt logprobs come in chunks of at least this.
constexpr int kSpareRows = 64;
// Of a step, where no flag says it: EngineConfig says why.
constexpr int kTokensOfDevice = 2048;
constexpr int kTokensOfProcessor = 512;
constexpr int kMixedTokensOfProcessor = 64;
constexpr int kMostSequences = 1 << 16;
constexpr int kTokensOfSequence = 2;  // a step has room for a token of each, and for as many of prompts
constexpr std::int64_t kMostPositions = std::int64_t{1} << 24;  // of a sequence, as page tables are profiled

// A damaged weight must not pass for an answer.
Status check_finite(const std::vector<float>& logits, int vocab, int first_row) {
  const auto bad = std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
  if (bad == logits.end()) return {};
  const std::int64_t position = first_row + (bad - logits.begin()) / vocab;
  return Error("the logits of position " + std::to_string(position) +
               " are not finite: the checkpoint's weights hold NaN or infinity, or overflow");
}

std::vector<RunnerParts> parts_of(const LoadedModel& loaded, const std::vector<std::unique_ptr<KvStore>>& stores,
                                  const std::vector<AttentionShape>& group_shapes) {
  std::vector<RunnerParts> parts;
  for (std::size_t rank = 0; rank < stores.size(); ++rank)
    parts.push_back(
        {*loaded.ranks[rank].backend, *loaded.ranks[rank].model, *stores[rank], loaded.compute, group_shapes});
  return parts;
}

class LocalEngine final : public Engine {
 public:
  LocalEngine(std::shared_ptr<LoadedModel> loaded, const EngineConfig& config, EngineFacts facts)
      : loaded_(std::move(loaded)), config_(config), facts_(std::move(facts)), inbox_(config.max_queued) {}
  ~LocalEngine() override {
    loop_.reset();  // joins the thread while what it works with is still there
  }

  Status start(std::vector<std::unique_ptr<KvStore>> stores, const std::vector<AttentionShape>& group_shapes,
               const StepLimits& limits);

  const ModelSpec& spec() const override { return loaded_->spec(); }
  const EngineFacts& facts() const override { return facts_; }
  EngineStats stats() const override;
  Status alive() const override { return inbox_.state(); }
  Result<std::unique_ptr<TokenStream>> submit(Request request) override;
  void reset_prefix_cache() override;
  Result<std::vector<float>> logits(const std::vector<std::int32_t>& ids, std::optional<int> decode_from,
                                    int first_row) override;

 private:
  Result<std::shared_ptr<Sequence>> make_job(const std::vector<std::int32_t>& ids, std::optional<int> decode_from,
                                             int first_row);

  std::shared_ptr<LoadedModel> loaded_;
  EngineConfig config_;
  EngineFacts facts_;
  std::string cache_identity_;
  std::vector<std::int32_t> eos_;                 // those of the model's that its vocabulary has
  std::vector<std::unique_ptr<KvStore>> stores_;  // by rank
  std::unique_ptr<Runners> runners_;
  Inbox inbox_;
  std::unique_ptr<EngineLoop> loop_;
};

Status LocalEngine::start(std::vector<std::unique_ptr<KvStore>> stores, const std::vector<AttentionShape>& group_shapes,
                          const StepLimits& limits) {
  stores_ = std::move(stores);
  for (const auto& store : stores_) cache_identity_ += store->identity();
  for (const std::int32_t id : spec().eos)
    if (id >= 0 && id < spec().vocab) eos_.push_back(id);
  OCTAVO_TRY(runners_, Runners::create(*loaded_->threads, parts_of(*loaded_, stores_, group_shapes), limits));
  OCTAVO_TRY(runners_->record_decodes());
  facts_.activation_bytes = runners_->activation_bytes();
  for (const auto& store : stores_) facts_.kv_cache_bytes += store->bytes();
  const SchedulerLimits scheduler{.max_tokens = limits.max_tokens,
                                  .max_seqs = limits.max_seqs,
                                  .max_rows = limits.max_rows,
                                  .max_chunk = config_.long_prefill_token_threshold,
                                  .max_itl_ms = config_.max_itl_ms,
                                  .mixed_tokens = *config_.mixed_step_tokens,
                                  .prefix_caching = config_.prefix_caching};
  loop_ = std::make_unique<EngineLoop>(stores_, *runners_, inbox_, scheduler, spec().vocab,
                                       static_cast<int>(spec().layers.size()), loaded_->device().asynchronous());
  return {};
}

EngineStats LocalEngine::stats() const {
  EngineStats stats = loop_->stats();
  stats.waiting = inbox_.queued();
  return stats;
}

Result<std::unique_ptr<TokenStream>> LocalEngine::submit(Request request) {
  OCTAVO_TRY(check_request(request, {.vocab = spec().vocab, .max_model_len = facts_.max_model_len}));
  const int n = request.sampling.n;
  if (n > config_.max_queued)
    return Error("n is " + std::to_string(n) + ", but only " + std::to_string(config_.max_queued) +
                 " continuations may wait");
  try {
    const SequenceSource source{.number = inbox_.next_number(),
                                .engine_seed = config_.seed,
                                .max_model_len = facts_.max_model_len,
                                .eos = eos_,
                                .cache_identity = cache_identity_};
    auto queue = std::make_shared<TokenQueue>(n);
    InboxItem item;
    item.sequences = make_sequences(std::move(request), source, queue);
    auto stream = make_token_stream(std::move(queue));
    OCTAVO_TRY(inbox_.put(std::move(item)));
    return stream;
  } catch (const std::bad_alloc&) {
    return Error("not enough memory for this request", ErrorKind::exhausted);
  }
}

void LocalEngine::reset_prefix_cache() {
  InboxItem item;
  item.forget_prefixes = true;
  // An engine that has stopped has no cache to forget.
  if (const Status put = inbox_.put(std::move(item)); !put)
    log::debug("prefix cache not reset", {{"why", put.error().message()}});
}

Result<std::shared_ptr<Sequence>> LocalEngine::make_job(const std::vector<std::int32_t>& ids,
                                                        std::optional<int> decode_from, int first_row) {
  const int size = static_cast<int>(ids.size());
  if (ids.empty()) return Error("there are no tokens to compute logits of");
  if (ids.size() > static_cast<std::size_t>(facts_.max_model_len))
    return Error("This model's maximum context length is " + std::to_string(facts_.max_model_len) +
                 " tokens, but there are " + std::to_string(ids.size()) + " tokens to compute logits of");
  OCTAVO_TRY(check_token_ids(ids, "the tokens", spec().vocab));
  if (decode_from && (*decode_from < 0 || *decode_from > size))
    return Error("decode_from is " + std::to_string(*decode_from) + ": it must be between 0 and the " +
                 std::to_string(size) + " tokens there are");
  if (first_row < 0 || first_row >= size)
    return Error("the first row of logits is " + std::to_string(first_row) + ": it must be one of the " +
                 std::to_string(size) + " tokens there are");
  auto sequence = std::make_shared<Sequence>();
  sequence->number = inbox_.next_number();
  sequence->id = "logits-" + std::to_string(sequence->number);
  sequence->tokens = ids;
  sequence->prompt_size = size;
  sequence->root = root_hash(cache_identity_, "", "");
  sequence->job = std::make_shared<LogitsJob>();
  sequence->job->decode_from = decode_from.value_or(size);
  sequence->job->first_row = sequence->rows_done = first_row;
  sequence->job->logits.resize(static_cast<std::size_t>(size - first_row) * static_cast<std::size_t>(spec().vocab));
  return sequence;
}

Result<std::vector<float>> LocalEngine::logits(const std::vector<std::int32_t>& ids, std::optional<int> decode_from,
                                               int first_row) {
  try {
    OCTAVO_TRY(const std::shared_ptr<Sequence> sequence, make_job(ids, decode_from, first_row));
    InboxItem item;
    item.sequences = {sequence};
    item.needs_rows = std::min(facts_.max_num_batched_tokens, sequence->size() - first_row);
    OCTAVO_TRY(inbox_.put(std::move(item)));
    OCTAVO_TRY(sequence->job->wait());
    OCTAVO_TRY(check_finite(sequence->job->logits, spec().vocab, first_row));
    return std::move(sequence->job->logits);
  } catch (const std::bad_alloc&) {
    return Error("not enough memory for the logits of " + std::to_string(ids.size()) + " tokens", ErrorKind::exhausted);
  }
}

Status check_config(const EngineConfig& config) {
  const auto check_count = [](const char* flag, std::int64_t value, std::int64_t most) -> Status {
    if (value >= 1 && value <= most) return {};
    return Error(std::string(flag) + " " + std::to_string(value) + ": it must be between 1 and " +
                 std::to_string(most));
  };
  OCTAVO_TRY(check_count("--max-num-seqs", config.max_num_seqs, kMostSequences));
  OCTAVO_TRY(check_count("--max-num-batched-tokens", *config.max_num_batched_tokens, 1 << 20));
  OCTAVO_TRY(check_count("the length of the queue", config.max_queued, 1 << 24));
  const bool power_of_two = config.page_size > 0 && (config.page_size & (config.page_size - 1)) == 0;
  if (!power_of_two || config.page_size < 8 || config.page_size > 1024)
    return Error("--block-size " + std::to_string(config.page_size) + ": it must be a power of two from 8 to 1024");
  return {};
}

void log_choices(const EngineFacts& facts, const CacheLayout& layout, const MemoryPlan& plan, int max_num_seqs,
                 bool skips_nothing) {
  for (const std::string& line : facts.kv_report) log::info("kv cache", {{"layers", line}});
  log::info("kv capacity", {{"tokens", facts.capacity_tokens}, {"derivation", facts.capacity_derivation}});
  log::info("context", {{"max_model_len", facts.max_model_len}, {"reason", plan.length_reason}});
  log::info("memory", {{"weight_bytes", facts.weight_bytes},
                       {"kv_cache_bytes", facts.kv_cache_bytes},
                       {"activation_bytes", facts.activation_bytes}});
  if (max_num_seqs > facts.max_num_batched_tokens)
    log::warn("fewer requests at once than --max-num-seqs",
              {{"requests", facts.max_num_batched_tokens},
               {"because", "a step computes a token of each, and no more than --max-num-batched-tokens"}});
  if (skips_nothing)
    log::info("flag has no effect", {{"flag", "--kv-cache-dtype-skip-layers"},
                                     {"because", "without --kv-cache-dtype every layer keeps the compute dtype"}});
  if (layout.num_uncalibrated > 0)
    log::warn(
        "kv cache uncalibrated",
        {{"layers", layout.num_uncalibrated},
         {"why", "8-bit floating cache without scales in the checkpoint: 1.0 is used and large values saturate"}});
  if (layout.num_unused_scales > 0)
    log::info("kv scales not needed",
              {{"layers", layout.num_unused_scales}, {"why", "this cache dtype takes no given scale"}});
}

StepLimits step_limits(const EngineConfig& config, const CacheLayout& layout) {
  StepLimits limits;
  limits.max_tokens = *config.max_num_batched_tokens;
  limits.max_seqs = std::min(config.max_num_seqs, limits.max_tokens);
  limits.max_pages = 1;
  limits.max_rows = std::min(limits.max_tokens, config.max_num_seqs + kSpareRows);
  limits.page_size = config.page_size;
  limits.num_groups = static_cast<int>(layout.group_shapes.size());
  limits.num_state_groups = static_cast<int>(layout.groups.size()) - limits.num_groups;
  return limits;
}

// A store of each rank, whose model knows the scales of its heads.
Result<std::vector<std::unique_ptr<KvStore>>> make_stores(const LoadedModel& loaded, const CacheLayout& layout,
                                                          const std::vector<std::int32_t>& num_pages, int page_size) {
  std::vector<std::unique_ptr<KvStore>> stores(loaded.ranks.size());
  const Status made = loaded.threads->run([&](int rank) -> Status {
    const auto i = static_cast<std::size_t>(rank);
    StoreSpec spec{.groups = layout.groups,
                   .num_pages = num_pages,
                   .scales = loaded.ranks[i].model->kv_scales(),
                   .page_size = page_size};
    OCTAVO_TRY(stores[i], KvStore::create(loaded.ranks[i].backend->device(), std::move(spec)));
    return {};
  });
  if (!made) return made.error();
  return stores;
}

// What the cache of a rank may take: of memory that is the host's its part of what is left beside the measured
// activations of all, of a device's own what its share leaves beside the largest steps, which are run to see.
Result<CacheRoom> find_room(LoadedModel& loaded, const EngineConfig& config, const CacheLayout& layout,
                            StepLimits limits) {
  const auto positions = std::max<std::int64_t>(config.max_model_len.value_or(loaded.spec().max_positions), 1);
  const std::vector<std::int32_t> least(layout.groups.size(), 2);
  OCTAVO_TRY(const auto stores, make_stores(loaded, layout, least, config.page_size));
  const std::vector<RunnerParts> parts = parts_of(loaded, stores, layout.group_shapes);
  if (!loaded.device().memory().dedicated || config.kv_cache_bytes) {
    OCTAVO_TRY(const std::size_t activations, Runner::measure(parts.front(), limits));
    // Another engine of the same model may have taken some since it was loaded.
    const std::size_t left = std::min(loaded.available_bytes, loaded.device().memory().available_bytes);
    return CacheRoom{static_cast<std::int64_t>((left - std::min(left, activations * parts.size())) / parts.size()), {}};
  }
  limits.max_pages = static_cast<int>((std::min<std::int64_t>(positions, kMostPositions) - 1) / config.page_size + 1);
  OCTAVO_TRY(const std::size_t taken, profile_steps(*loaded.threads, parts, limits)
                                          .in("no room for the largest steps (lower --max-num-batched-tokens or "
                                              "--max-num-seqs)"));
  std::optional<CacheRoom> least_room;
  for (const LoadedRank& rank : loaded.ranks) {
    const MemoryInfo memory = rank.backend->device().memory();
    OCTAVO_TRY(CacheRoom room, room_for_cache({.total_bytes = static_cast<std::int64_t>(memory.total_bytes),
                                               .free_bytes = static_cast<std::int64_t>(memory.available_bytes),
                                               .held_bytes = static_cast<std::int64_t>(memory.held_bytes),
                                               .step_bytes = static_cast<std::int64_t>(taken),
                                               .share = config.gpu_memory_utilization}));
    if (!least_room || room.bytes < least_room->bytes) least_room = std::move(room);
  }
  return *std::move(least_room);
}

// The plan of one rank's memory: every rank has the same pages.
Result<MemoryPlan> plan_rank(const MemoryRequest& request, std::size_t num_ranks) {
  Result<MemoryPlan> plan = plan_memory(request);
  if (num_ranks == 1) return plan;
  const std::string where = "on each of " + std::to_string(num_ranks) + " ranks";
  if (!plan) return plan.error().in(where);
  plan->derivation += ", " + where;
  return plan;
}

EngineFacts make_facts(const LoadedModel& loaded, const EngineConfig& config, const CacheLayout& layout,
                       const MemoryPlan& plan) {
  EngineFacts facts;
  facts.compute = loaded.compute;
  facts.max_model_len = plan.max_model_len;
  facts.page_size = config.page_size;
  facts.max_num_batched_tokens = *config.max_num_batched_tokens;
  facts.max_itl_ms = config.max_itl_ms;
  facts.num_ranks = static_cast<int>(loaded.ranks.size());
  facts.capacity_tokens = plan.capacity_tokens;
  facts.capacity_derivation = plan.derivation;
  facts.kv_bytes_per_token = plan.bytes_per_token * facts.num_ranks;
  facts.weight_bytes = loaded.weight_bytes;
  facts.load_seconds = loaded.load_seconds;
  facts.layers = layout.layers;
  facts.kv_report = layout.report;
  return facts;
}

}  // namespace

std::unique_ptr<RankThreads> start_threads(const std::vector<LoadedRank>& ranks) {
  std::vector<Comm*> comms;
  for (const LoadedRank& rank : ranks) comms.push_back(&rank.backend->comm());
  return std::make_unique<RankThreads>(std::move(comms));
}

Result<std::unique_ptr<Engine>> make_local_engine(std::shared_ptr<LoadedModel> shared, EngineConfig config) {
  LoadedModel& loaded = *shared;
  Backend& backend = *loaded.ranks.front().backend;
  if (!config.max_num_batched_tokens)
    config.max_num_batched_tokens = std::max(backend.device().memory().dedicated ? kTokensOfDevice : kTokensOfProcessor,
                                             kTokensOfSequence * std::min(config.max_num_seqs, kMostSequences));
  if (!config.mixed_step_tokens)
    config.mixed_step_tokens =
        backend.device().memory().dedicated || config.max_itl_ms > 0 ? 0 : kMixedTokensOfProcessor;
  OCTAVO_TRY(check_config(config));
  const std::vector<KvScales> scales = loaded.ranks.front().model->kv_scales();
  OCTAVO_TRY(const CacheLayout layout, make_cache_layout({.spec = loaded.spec(),
                                                          .num_ranks = static_cast<int>(loaded.ranks.size()),
                                                          .choice = config.kv_cache,
                                                          .skip_layers = config.skip_layers,
                                                          .compute = loaded.compute,
                                                          .scales = scales,
                                                          .page_size = config.page_size}));
  for (const AttentionShape& shape : layout.layer_shapes) OCTAVO_TRY(backend.supports(shape));
  if (layout.groups.size() > layout.group_shapes.size()) OCTAVO_TRY(backend.supports_states());
  StepLimits limits = step_limits(config, layout);
  OCTAVO_TRY(const CacheRoom room, find_room(loaded, config, layout, limits));
  OCTAVO_TRY(const MemoryPlan plan, plan_rank({.groups = layout.groups,
                                               .page_size = config.page_size,
                                               .model_positions = loaded.spec().max_positions,
                                               .max_model_len = config.max_model_len,
                                               .kv_cache_bytes = config.kv_cache_bytes,
                                               .max_num_seqs = config.max_num_seqs,
                                               .max_num_batched_tokens = *config.max_num_batched_tokens,
                                               .prefix_caching = config.prefix_caching,
                                               .available_bytes = room.bytes,
                                               .fill_reason = config.fill_memory ? room.derivation : ""},
                                              loaded.ranks.size()));
  limits.max_pages = (plan.max_model_len + config.page_size - 1) / config.page_size;
  OCTAVO_TRY(auto stores, make_stores(loaded, layout, plan.num_pages, config.page_size));
  EngineFacts facts = make_facts(loaded, config, layout, plan);
  auto engine = std::make_unique<LocalEngine>(std::move(shared), config, std::move(facts));
  OCTAVO_TRY(engine->start(std::move(stores), layout.group_shapes, limits));
  log_choices(engine->facts(), layout, plan, config.max_num_seqs,
              config.kv_cache.automatic && !config.skip_layers.empty());
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace octavo
