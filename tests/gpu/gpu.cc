#include "tests/gpu/gpu.h"

#include <utility>

#include "cuda/backend.h"

namespace octavo::gpu {
namespace {

class UnrecordedDevice final : public Device {
 public:
  explicit UnrecordedDevice(Device& inner) : inner_(inner) {}
  std::string describe() const override { return inner_.describe(); }
  MemoryInfo memory() const override { return inner_.memory(); }
  Result<Buffer> allocate(std::size_t bytes, const std::string& purpose) override {
    return inner_.allocate(bytes, purpose);
  }
  void fill_zero(std::byte* data, std::size_t bytes) override { inner_.fill_zero(data, bytes); }
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                       const std::string& purpose) override {
    return inner_.adopt(bytes, std::move(owner), purpose);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override { inner_.upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override { inner_.download(to, from); }
  std::unique_ptr<Download> begin_download(const std::byte* from, std::size_t bytes) override {
    return inner_.begin_download(from, bytes);
  }
  void synchronize() override { inner_.synchronize(); }
  bool asynchronous() const override { return inner_.asynchronous(); }
  Status status() const override { return inner_.status(); }
  Result<std::unique_ptr<Recording>> record(std::function<void()> work) override {
    work();
    return Error("nothing is recorded here", ErrorKind::unsupported);
  }

 private:
  Device& inner_;
};

class UnrecordedBackend final : public Backend {
 public:
  explicit UnrecordedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)), device_(inner_->device()) {}
  Device& device() override { return device_; }
  Ops& ops() override { return inner_->ops(); }
  Comm& comm() override { return inner_->comm(); }
  Status supports(const AttentionShape& shape) const override { return inner_->supports(shape); }
  Status supports_states() const override { return inner_->supports_states(); }
  Status supports_compute(DType compute) const override { return inner_->supports_compute(compute); }
  int recorded_batch(int num_seqs) const override { return inner_->recorded_batch(num_seqs); }

 private:
  std::unique_ptr<Backend> inner_;
  UnrecordedDevice device_;
};

}  // namespace

BackendFactory factory(bool deterministic) {
  return [deterministic](int) -> Result<std::vector<std::unique_ptr<Backend>>> {
    OCTAVO_TRY(auto backend, cuda::make_backend(0, {.deterministic = deterministic}));
    return only_rank(std::move(backend));
  };
}

BackendFactory unrecorded_factory() {
  return [](int) -> Result<std::vector<std::unique_ptr<Backend>>> {
    OCTAVO_TRY(auto inner, cuda::make_backend(0, {}));
    return only_rank(std::make_unique<UnrecordedBackend>(std::move(inner)));
  };
}

EngineConfig engine_config(const std::string& folder) {
  EngineConfig config = golden::engine_config(folder);
  config.compute.reset();
  config.fill_memory = false;
  return config;
}

}  // namespace octavo::gpu
