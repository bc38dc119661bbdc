#include "cpu/backend.h"

#include <algorithm>
#include <string>

#include "base/parallel.h"
#include "cpu/device.h"
#include "cpu/ops.h"
#include "cpu/rank_comm.h"

namespace octavo::cpu {

namespace {

constexpr int kMaxThreads = 1024;

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Config& config, int num_threads, const CpuDevice::Account& account, std::unique_ptr<Comm> comm)
      : device_(
            std::to_string(num_threads) + (num_threads == 1 ? " thread, " : " threads, ") +
                std::string(name_of(config.isa)) + (config.deterministic ? ", deterministic" : ""),
            [] { return read_memory(); }, account),
        ops_(num_threads, config.isa, config.deterministic),
        comm_(std::move(comm)) {}

  Device& device() override { return device_; }
  Ops& ops() override { return ops_; }
  Comm& comm() override { return *comm_; }
  Status supports(const AttentionShape& shape) const override;
  Status supports_compute(DType compute) const override;
  Status prepare(Weight& weight, DType compute) override { return ops_.prepare(weight, compute, device_); }
  int recorded_batch(int num_seqs) const override { return num_seqs; }
  Result<Ceilings> ceilings() override { return ops_.ceilings(device_.memory().available_bytes); }

 private:
  CpuDevice device_;
  CpuOps ops_;
  std::unique_ptr<Comm> comm_;
};

Status segment_supported(const KvSegment& segment) {
  if (segment.heads < 1 || segment.width < 1)
    return Error("a cache segment of " + std::to_string(segment.heads) + " heads of " + std::to_string(segment.width) +
                 " numbers cannot be kept");
  if (segment.transform == KvTransform::hadamard && segment.part != KvPart::key)
    return Error("only keys are kept rotated on the processor; choose --kv-cache-transform none",
                 ErrorKind::unsupported);
  if ((segment.elem == KvElem::int8) != (segment.grain == KvGrain::token_head))
    return Error("int8 needs a scale for each token and head, and only int8 has one", ErrorKind::unsupported);
  if (segment.grain == KvGrain::token_block && segment.part != KvPart::latent && segment.part != KvPart::rope)
    return Error("scales for blocks of numbers are kept for a latent cache only", ErrorKind::unsupported);
  return {};
}

Status CpuBackend::supports(const AttentionShape& shape) const {
  const KvFormat& format = shape.format;
  if (format.num_segments != 2) return Error("a cache record needs two segments, K and V, or a latent and a rope key");
  for (int i = 0; i < format.num_segments; ++i) OCTAVO_TRY(segment_supported(format.segments[i]));
  const int kv_heads = format.segments[0].heads;
  if (format.segments[1].heads != kv_heads)
    return Error("both segments of a cache record need the same number of heads");
  if (shape.q_heads < kv_heads || shape.q_heads % kv_heads != 0)
    return Error(std::to_string(shape.q_heads) + " query heads do not divide among " + std::to_string(kv_heads) +
                 " KV heads");
  if (shape.page_size < 8 || (shape.page_size & (shape.page_size - 1)) != 0)
    return Error("a page holds a power of two of tokens, at least 8; not " + std::to_string(shape.page_size));
  return {};
}

Status CpuBackend::supports_compute(DType compute) const {
  if (compute == DType::f32 || compute == DType::bf16) return {};
  return Error("activations of " + std::string(dtype_info(compute).name) +
                   " are not computed on the processor; choose --dtype bfloat16 or float32",
               ErrorKind::unsupported);
}

}  // namespace

Result<std::vector<std::unique_ptr<Backend>>> make_backends(const Config& config, int num_ranks) {
  check(num_ranks >= 1, "a model has a rank");
  if (config.num_threads < 0 || config.num_threads > kMaxThreads)
    return Error("the number of threads must lie between 1 and " + std::to_string(kMaxThreads) +
                 " (0: every CPU), not " + std::to_string(config.num_threads));
  if (config.isa > best_isa())
    return Error("the path '" + std::string(name_of(config.isa)) + "' cannot run here; the best one is '" +
                     std::string(name_of(best_isa())) + "'",
                 ErrorKind::unsupported);
  const int num_threads = config.num_threads > 0 ? config.num_threads : available_cpus();
  const auto account = std::make_shared<std::atomic<std::size_t>>(0);
  const auto group = std::make_shared<RankGroup>(num_ranks);
  std::vector<std::unique_ptr<Backend>> backends;
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::unique_ptr<Comm> comm = std::make_unique<SingleRank>();
    if (num_ranks > 1) comm = std::make_unique<RankComm>(group, rank);
    backends.push_back(
        std::make_unique<CpuBackend>(config, std::max(1, num_threads / num_ranks), account, std::move(comm)));
  }
  return backends;
}

Result<std::unique_ptr<Backend>> make_backend(const Config& config) {
  OCTAVO_TRY(auto backends, make_backends(config, 1));
  return std::move(backends.front());
}

}  // namespace octavo::cpu
