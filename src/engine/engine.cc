#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
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

Result<std::vector<Buffer>> bind_weights(Model& model, const Checkpoint& checkpoint, Device& device, std::uint64_t seed,
                                         std::size_t bytes) {
  if (checkpoint.format() == LoadFormat::dummy) {
    DummyBinder binder(device, RankOf{}, seed, model.spec().quantization);
    LoadProgress progress(binder, bytes, LoadProgress::standard_error());
    OCTAVO_TRY(model.visit(progress));
    return binder.take_buffers();
  }
  CheckpointBinder binder(checkpoint, model.spec().quantization, model.names(), device, RankOf{});
  LoadProgress progress(binder, bytes, LoadProgress::standard_error());
  OCTAVO_TRY(model.visit(progress));
  OCTAVO_TRY(binder.finish());
  return binder.take_buffers();
}

Result<LoadedModel> load(const EngineConfig& config, const BackendFactory& make_backend) {
  const auto start = std::chrono::steady_clock::now();
  LoadedModel loaded;
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open(config.model_path, config.load_format));
  OCTAVO_TRY(loaded.model, make_model(checkpoint, config.overrides));
  OCTAVO_TRY(loaded.backend, make_backend(0));
  const ModelSpec& spec = loaded.model->spec();
  log::info("model", {{"path", checkpoint.path()},
                      {"architecture", spec.architecture},
                      {"layers", spec.layers.size()},
                      {"hidden", spec.hidden},
                      {"vocab", spec.vocab},
                      {"positions", spec.max_positions},
                      {"stored", spec.stored_dtype},
                      {"rope", spec.rope}});
  OCTAVO_TRY(const ComputeChoice compute, choose_compute(config, spec, *loaded.backend));
  loaded.compute = compute.dtype;
  log::info("compute", {{"dtype", dtype_info(compute.dtype).name},
                        {"reason", compute.reason},
                        {"device", loaded.backend->device().describe()}});

  const std::size_t before = loaded.backend->device().memory().available_bytes;
  OCTAVO_TRY(const std::size_t needed, needed_weight_bytes(*loaded.model, checkpoint));
  if (needed > before)
    return Error("the weights of " + checkpoint.path() + " need " + human_bytes(needed) + ", but only " +
                     human_bytes(before) + " of memory are available",
                 ErrorKind::exhausted);
  const auto bind_start = std::chrono::steady_clock::now();
  OCTAVO_TRY(loaded.weights, bind_weights(*loaded.model, checkpoint, loaded.backend->device(), config.seed, needed));
  loaded.backend->device().synchronize();
  for (const Buffer& buffer : loaded.weights) loaded.weight_bytes += buffer.size();
  // Weights that are mapped files still count as available, but will be needed all the time.
  const std::size_t after = loaded.backend->device().memory().available_bytes;
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

Result<std::shared_ptr<LoadedModel>> load_model(const EngineConfig& config, const BackendFactory& make_backend) {
  return guarded(config, [&]() -> Result<std::shared_ptr<LoadedModel>> {
    OCTAVO_TRY(LoadedModel loaded, load(config, make_backend));
    return std::make_shared<LoadedModel>(std::move(loaded));
  });
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineConfig& config, std::shared_ptr<LoadedModel> model) {
  return guarded(config, [&] { return make_local_engine(std::move(model), config); });
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineConfig& config, const BackendFactory& make_backend) {
  OCTAVO_TRY(std::shared_ptr<LoadedModel> model, load_model(config, make_backend));
  return create(config, std::move(model));
}

}  // namespace octavo
