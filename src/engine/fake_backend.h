// For tests: a device of plain host memory, and sampling verbs written as simply as their contract reads (greedy and
// temperature; no top-k, top-p, min-p). All other arithmetic does nothing: FakeModel does its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/rendezvous.h"
#include "engine/null_ops.h"
#include "ops/backend.h"

namespace octavo {

// The next token from changed logits.
inline std::int32_t draw(const std::vector<float>& logits, float temperature, std::uint64_t seed,
                         std::uint64_t position) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature == 0.0f) return static_cast<std::int32_t>(best - logits.begin());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - *best) / temperature);
  double left = uniform_from(seed, position) * sum;
  for (std::size_t v = 0; v < logits.size(); ++v) {
    const double p = std::exp(static_cast<double>(logits[v] - *best) / temperature);
    if (p > 0 && left < p) return static_cast<std::int32_t>(v);
    left -= p;
  }
  return static_cast<std::int32_t>(best - logits.begin());
}

inline float log_softmax(std::span<const float> logits, std::int32_t id) {
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  return static_cast<float>(logits[static_cast<std::size_t>(id)] - std::log(sum));
}

class KeptWork final : public Recording {
 public:
  KeptWork(std::function<void()> work, std::atomic<int>& replays) : work_(std::move(work)), replays_(replays) {}
  void replay() override {
    ++replays_;
    work_();
  }

 private:
  std::function<void()> work_;
  std::atomic<int>& replays_;
};

class FakeDevice final : public Device {
 public:
  std::string describe() const override { return "fake"; }
  MemoryInfo memory() const override {
    if (!dedicated) return {available, available};
    return {available, available - std::min(available, *held + others), *held, true};
  }
  Result<Buffer> allocate(std::size_t bytes, const std::string& purpose) override {
    if (bytes > largest || (dedicated && bytes > memory().available_bytes))
      return Error("cannot allocate " + std::to_string(bytes) + " bytes for " + purpose, ErrorKind::exhausted);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64));
    std::memset(data, 0xA5, bytes);
    *held += bytes;
    return Buffer(data, bytes, [bytes, held = held](std::byte* memory) {
      *held -= bytes;
      std::free(memory);
    });
  }
  void fill_zero(std::byte* data, std::size_t bytes) override { std::memset(data, 0, bytes); }
  Result<Buffer> adopt(std::span<const std::byte>, std::shared_ptr<const void>, const std::string&) override {
    return Error("not here", ErrorKind::unsupported);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  void synchronize() override {}
  bool asynchronous() const override { return works_alone; }
  Status status() const override { return failure.empty() ? Status() : Error(failure, ErrorKind::unavailable); }
  Result<std::unique_ptr<Recording>> record(std::function<void()> work) override {
    work();
    ++recordings;
    if (!records) return Error("this work cannot be captured", ErrorKind::unsupported);
    return std::unique_ptr<Recording>(std::make_unique<KeptWork>(std::move(work), replays));
  }

  bool works_alone = false;  // steps overlap
  bool records = true;
  std::string failure;
  int recordings = 0;
  std::atomic<int> replays = 0;
  bool dedicated = false;  // memory of its own, all of which `available` then is
  std::size_t others = 0;  // of it, what other processes hold
  std::shared_ptr<std::atomic<std::size_t>> held = std::make_shared<std::atomic<std::size_t>>(0);
  std::size_t available = std::size_t{64} << 20;
  std::size_t largest = std::size_t{1} << 32;
};

class FakeOps final : public NullOps {
 public:
  FakeOps() : NullOps(static_cast<const Ops&>(*this)) {}
  QuerySpec query_spec(const KvFormat&) const override { return {}; }

  void gather(const GatherArgs& args) override {
    for (std::int64_t i = 0; i < args.index.elements(); ++i)
      std::memcpy(args.out.rows(i, 1).raw(), args.x.rows(args.index.data<std::int32_t>()[i], 1).raw(),
                  static_cast<std::size_t>(args.out.rows(i, 1).bytes()));
  }

  // As the engine copies records. Fake ones are no numbers, so they are not multiplied.
  void scale(const ScaleArgs& args) override {
    if (args.factor != 1.0f || args.x.size(0) != 1) return;
    std::memcpy(args.out.raw(), args.x.raw(), static_cast<std::size_t>(args.x.bytes()));
    ++copies;
  }

  void sample(const SampleArgs& args) override {
    for (std::int64_t row = 0; row < args.logits.size(0); ++row) {
      const SampleRow& rule = args.rows[row];
      const float* from = args.logits.data<float>() + row * args.logits.stride(0);
      std::vector<float> logits(from, from + args.logits.size(1));
      if (rule.only_biased) std::fill(logits.begin(), logits.end(), -INFINITY);
      for (std::int32_t i = rule.bias_begin; rule.only_biased && i < rule.bias_end; ++i)
        logits[static_cast<std::size_t>(args.bias_ids.data<std::int32_t>()[i])] =
            from[args.bias_ids.data<std::int32_t>()[i]];
      for (std::int32_t i = rule.bias_begin; i < rule.bias_end; ++i)
        logits[static_cast<std::size_t>(args.bias_ids.data<std::int32_t>()[i])] += args.bias_values.data<float>()[i];
      for (std::int32_t i = rule.seen_begin; i < rule.seen_end; ++i) {
        float& x = logits[static_cast<std::size_t>(args.seen_ids.data<std::int32_t>()[i])];
        const auto count = static_cast<float>(args.seen_counts.data<std::int32_t>()[i]);
        x = x > 0 ? x / rule.repetition_penalty : x * rule.repetition_penalty;
        x -= rule.frequency_penalty * count + (count > 0 ? rule.presence_penalty : 0.0f);
      }
      args.out.data<std::int32_t>()[row] = out_of_range ? -1 : draw(logits, rule.temperature, rule.seed, rule.position);
    }
  }

  void log_probs(const LogProbsArgs& args) override {
    const std::int64_t top = args.top_ids.empty() ? 0 : args.top_ids.size(1);
    for (std::int64_t row = 0; row < args.logits.size(0); ++row) {
      const std::span logits(args.logits.data<float>() + row * args.logits.stride(0),
                             static_cast<std::size_t>(args.logits.size(1)));
      std::vector<std::int32_t> order(logits.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
      });
      const std::int32_t id = args.ids.data<std::int32_t>()[row];
      args.chosen.data<float>()[row] = log_softmax(logits, id);
      args.rank.data<std::int32_t>()[row] =
          static_cast<std::int32_t>(std::find(order.begin(), order.end(), id) - order.begin()) + 1;
      for (std::int64_t j = 0; j < top; ++j) {
        args.top_ids.data<std::int32_t>()[row * top + j] = order[static_cast<std::size_t>(j)];
        args.top_values.data<float>()[row * top + j] = log_softmax(logits, order[static_cast<std::size_t>(j)]);
      }
    }
  }

  bool out_of_range = false;  // a sampler that fails
  std::atomic<int> copies = 0;
};

// What fake ranks share: f32 sums alone.
struct FakeRanks {
  explicit FakeRanks(int size) : meeting(size), given(static_cast<std::size_t>(size)) {}
  Rendezvous meeting;
  std::vector<Tensor> given;
};

class FakeComm final : public Comm {
 public:
  FakeComm(std::shared_ptr<FakeRanks> ranks, int rank) : ranks_(std::move(ranks)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_->given.size()); }
  void all_reduce(const Tensor& x) override {
    ranks_->given[static_cast<std::size_t>(rank_)] = x;
    if (!ranks_->meeting.meet()) return;
    std::vector<float> sum(static_cast<std::size_t>(x.elements()));
    for (const Tensor& each : ranks_->given)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += each.data<float>()[i];
    if (!ranks_->meeting.meet()) return;  // all have read
    std::copy(sum.begin(), sum.end(), x.data<float>());
  }
  void all_gather_columns(const Tensor&, const Tensor&) override {}
  void give_up() override { ranks_->meeting.give_up(); }
  Status restore() override {
    if (!lasting_failure.empty()) return Error(lasting_failure, ErrorKind::unavailable);
    ranks_->meeting.restore();
    return {};
  }

  std::string lasting_failure;  // why nothing can be restored

 private:
  std::shared_ptr<FakeRanks> ranks_;
  int rank_;
};

class FakeBackend final : public Backend {
 public:
  FakeBackend() : FakeBackend(std::make_shared<FakeRanks>(1), 0) {}
  FakeBackend(std::shared_ptr<FakeRanks> ranks, int rank) : comm_(std::move(ranks), rank) {}
  FakeDevice& device() override { return device_; }
  FakeOps& ops() override { return ops_; }
  FakeComm& comm() override { return comm_; }
  Status supports(const AttentionShape& shape) const override {
    if (shape.sinks) return Error("no sinks here", ErrorKind::unsupported);
    return {};
  }
  Status supports_compute(DType) const override { return {}; }
  int recorded_batch(int num_seqs) const override {
    return batch_step == 0 ? 0 : (num_seqs + batch_step - 1) / batch_step * batch_step;
  }

  int batch_step = 1;  // decode steps are padded to multiples of it; 0: not recorded

 private:
  FakeDevice device_;
  FakeOps ops_;
  FakeComm comm_;
};

}  // namespace octavo
