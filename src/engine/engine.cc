#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "checkpoint/weight_meter.h"
#include "engine/load_progress.h"
#include "engine/local_engine.h"

namespace octavo {
namespace {

struct ComputeChoice {
  DType dtype = DType::bf16;
  std::string reason;
};

Result<ComputeChoice> choose_compute(const EngineConfig& config, const ModelSpec& spec, const Backend& backend) {
  if (config.compute) {
    if (*config.compute != DType::f32 && *config.compute != DType::bf16)
      return Error(
          "--dtype " + std::string(dtype_info(*config.compute).name) + ": octavo computes in bfloat16 or float32",
          ErrorKind::unsupported);
    OCTAVO_TRY(backend.supports_compute(*config.compute));
    return ComputeChoice{*config.compute, "--dtype"};
  }
  if (const Status bf16 = backend.supports_compute(DType::bf16); !bf16) {
    OCTAVO_TRY(backend.supports_compute(DType::f32));
    return ComputeChoice{DType::f32, "auto: " + bf16.error().message()};
  }
  return ComputeChoice{DType::bf16, "auto: the weights are stored as " + spec.stored_dtype};
}

// Bytes that the weights will take: the stored ones', or what dummies of the model's shapes would.
Result<std::size_t> needed_weight_bytes(Model& model, const Checkpoint& checkpoint) {
  std::size_t bytes = 0;
  if (checkpoint.format() == LoadFormat::dummy) {
    WeightMeter meter(model.spec().quantization);
    OCTAVO_TRY(model.visit(meter));
    return meter.bytes();
  }
  for (const StoredTensor& tensor : checkpoint.tensors()) bytes += tensor.bytes.size();
  return bytes;
}

Status bind_weights(LoadedRank& loaded, const Checkpoint& checkpoint, RankOf rank, DType compute, std::uint64_t seed,
                    std::size_t bytes) {
  Model& model = *loaded.model;
  Device& device = loaded.backend->device();
  // The first rank's progress tells of all.
  const auto visit = [&](Binder& binder) -> Status {
    if (rank.rank > 0) return model.visit(binder);
    LoadProgress progress(binder, bytes, LoadProgress::standard_error());
    return model.visit(progress);
  };
  if (checkpoint.format() == LoadFormat::dummy) {
    DummyBinder binder(device, rank, seed, model.spec().quantization);
    OCTAVO_TRY(visit(binder));
    loaded.weights = binder.take_buffers();
  } else {
    CheckpointBinder binder(checkpoint, model.spec().quantization, model.names(), device, rank,
                            [&](Weight& weight) { return loaded.backend->prepare(weight, compute); });
    OCTAVO_TRY(visit(binder));
    if (rank.rank == 0) OCTAVO_TRY(binder.finish());  // all ranks read the same tensors
    loaded.weights = binder.take_buffers();
  }
  device.synchronize();
  return {};
}

// What several ranks map is there once.
std::size_t held_weight_bytes(const std::vector<LoadedRank>& ranks) {
  std::map<const std::byte*, std::size_t> sizes;
  for (const LoadedRank& rank : ranks)
    for (const Buffer& buffer : rank.weights) {
      std::size_t& size = sizes[buffer.data()];
      size = std::max(size, buffer.size());
    }
  std::size_t bytes = 0;
  for (const auto& [address, size] : sizes) bytes += size;
  return bytes;
}

Result<std::vector<LoadedRank>> make_ranks(const EngineConfig& config, const Checkpoint& checkpoint,
                                           const BackendFactory& make_backends) {
  if (config.tensor_parallel < 1)
    return Error("--tensor-parallel-size " + std::to_string(config.tensor_parallel) + ": it must be at least 1");
  std::vector<LoadedRank> ranks;
  for (int rank = 0; rank < config.tensor_parallel; ++rank) {
    OCTAVO_TRY(auto model, make_model(checkpoint, config.overrides, {rank, config.tensor_parallel}));
    ranks.push_back({.backend = nullptr, .model = std::move(model), .weights = {}});
  }
  OCTAVO_TRY(auto backends, make_backends(config.tensor_parallel));
  check(backends.size() == ranks.size(), "a backend for each rank");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].backend = std::move(backends[rank]);
  return ranks;
}

// Errors where a device cannot hold its weights: memory of its own holds a rank's alone, the host's those of all.
Status check_room(const LoadedModel& loaded, const Checkpoint& checkpoint, std::size_t needed) {
  const MemoryInfo memory = loaded.device().memory();
  const std::size_t here = memory.dedicated ? needed / loaded.ranks.size() : needed;
  if (here <= memory.available_bytes) return {};
  return Error("the weights of " + checkpoint.path() + " need " + human_bytes(here) + ", but only " +
                   human_bytes(memory.available_bytes) + " of memory are available",
               ErrorKind::exhausted);
}

Result<LoadedModel> load(const EngineConfig& config, const BackendFactory& make_backends) {
  const auto start = std::chrono::steady_clock::now();
  LoadedModel loaded;
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open(config.model_path, config.load_format));
  OCTAVO_TRY(loaded.ranks, make_ranks(config, checkpoint, make_backends));
  loaded.threads = start_threads(loaded.ranks);
  const ModelSpec& spec = loaded.spec();
  const Backend& backend = *loaded.ranks.front().backend;
  log::info("model", {{"path", checkpoint.path()},
                      {"architecture", spec.architecture},
                      {"layers", spec.layers.size()},
                      {"hidden", spec.hidden},
                      {"vocab", spec.vocab},
                      {"positions", spec.max_positions},
                      {"stored", spec.stored_dtype},
                      {"rope", spec.rope}});
  OCTAVO_TRY(const ComputeChoice compute, choose_compute(config, spec, backend));
  loaded.compute = compute.dtype;
  log::info(
      "compute",
      {{"dtype", dtype_info(compute.dtype).name}, {"reason", compute.reason}, {"device", loaded.describe_device()}});

  const std::size_t before = loaded.device().memory().available_bytes;
  OCTAVO_TRY(const std::size_t needed, needed_weight_bytes(*loaded.ranks.front().model, checkpoint));
  OCTAVO_TRY(check_room(loaded, checkpoint, needed));
  const auto bind_start = std::chrono::steady_clock::now();
  OCTAVO_TRY(loaded.threads->run([&](int rank) {
    return bind_weights(loaded.ranks[static_cast<std::size_t>(rank)], checkpoint, {rank, config.tensor_parallel},
                        compute.dtype, config.seed, needed / loaded.ranks.size());
  }));
  loaded.weight_bytes = held_weight_bytes(loaded.ranks);
  // Weights that are mapped files still count as available, but will be needed all the time.
  const std::size_t after = loaded.device().memory().available_bytes;
  loaded.available_bytes = std::min(after, before - std::min(before, loaded.weight_bytes));
  const auto end = std::chrono::steady_clock::now();
  loaded.load_seconds = std::chrono::duration<double>(end - start).count();
  const double binding = std::chrono::duration<double>(end - bind_start).count();
  log::info("weights",
            {{"bytes", loaded.weight_bytes},
             {"seconds", binding},
             {"bytes_per_second", static_cast<std::int64_t>(static_cast<double>(loaded.weight_bytes) / binding)}});
  return loaded;
}

// What the standard library throws (memory, threads) ends here: nothing that is thrown leaves a room.
template <class Work>
auto guarded(const EngineConfig& config, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Error("not enough memory to load " + config.model_path, ErrorKind::exhausted);
  } catch (const std::exception& error) {
    return Error("loading " + config.model_path + " failed: " + error.what(), ErrorKind::internal);
  }
}

}  // namespace

Result<std::shared_ptr<LoadedModel>> load_model(const EngineConfig& config, const BackendFactory& make_backends) {
  return guarded(config, [&]() -> Result<std::shared_ptr<LoadedModel>> {
    OCTAVO_TRY(LoadedModel loaded, load(config, make_backends));
    return std::make_shared<LoadedModel>(std::move(loaded));
  });
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineConfig& config, std::shared_ptr<LoadedModel> model) {
  return guarded(config, [&] { return make_local_engine(std::move(model), config); });
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineConfig& config, const BackendFactory& make_backends) {
  OCTAVO_TRY(std::shared_ptr<LoadedModel> model, load_model(config, make_backends));
  return create(config, std::move(model));
}

}  // namespace octavo
