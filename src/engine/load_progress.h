// LoadProgress: a binder that passes every request on to another and tells how far loading is: a line that is written
// over and over on a terminal, elsewhere a line of the log for each ten percent once loading takes long. Loads that are
// done at once show nothing.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "checkpoint/binder.h"

namespace octavo {

class LoadProgress final : public Binder {
 public:
  using Clock = std::function<std::chrono::duration<double>()>;  // since some moment
  struct Display {
    bool terminal = false;
    std::function<void(const std::string& text)> write;  // to the terminal, as it is
    std::function<void(int percent, std::size_t bytes, double bytes_per_second)> log;
    Clock clock;
  };
  static Display standard_error();

  LoadProgress(Binder& binder, std::size_t total_bytes, Display display);
  ~LoadProgress() override;  // clears its line

  Status weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) override;
  Status multiply_too(Weight& weight) override { return binder_.multiply_too(weight); }
  Status experts(std::vector<Weight>& target, const ExpertsRequest& request) override;
  Status expert_biases(Tensor& target, const ExpertsRequest& request) override;
  Status vectors(Tensor& target, std::span<const PartRequest> parts) override;
  Status depthwise(Tensor& target, std::span<const PartRequest> parts, std::int64_t taps) override;
  Status constant(Tensor& target, std::span<const float> values) override;
  bool has(const std::string& name) const override { return binder_.has(name); }
  Result<StoredScales> kv_scales(const std::string& prefix, int q_heads, int kv_heads) override {
    return binder_.kv_scales(prefix, q_heads, kv_heads);
  }

 private:
  void add(std::size_t bytes);
  void draw(int percent, double seconds);

  Binder& binder_;
  std::size_t total_, done_ = 0;
  Display display_;
  double start_ = 0, drawn_ = 0;
  int told_ = 0;  // percent
  bool line_ = false;
};

}  // namespace octavo
