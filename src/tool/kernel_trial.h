// A trial: one row of a wing's table of kernels run at one shape, on random numbers, through the contract alone. It
// tells the time, the rate, and how far sampled results lie from a reference in double over the very numbers that the
// kernel was given. Results are NaN before the run, so what a kernel does not write shows.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace octavo {

struct KernelTrial {
  std::string row;
  std::string shape;  // "8 x 32k"
  double ms = 0;
  double bytes = 0;       // read and written
  double operations = 0;  // of the products
  double error = 0;       // root mean square of the sampled differences over that of the reference; NaN: poison
};

// The largest error that rounding can explain. A prefill with products in 8 bits rounds queries and weights, and the
// trials' values have no mean that would hide it.
constexpr double largest_trial_error(const KernelRow& row) {
  return row.phase == KernelPhase::prefill && row.products_in_8_bits ? 0.04 : 0.01;
}

// Random numbers, bfloat16 codes of about N(0, 1).
class TrialNumbers {
 public:
  explicit TrialNumbers(std::uint64_t seed) : random_(seed) {}
  std::uint64_t bits() { return random_(); }
  std::vector<std::uint16_t> normals(std::int64_t count);

 private:
  std::mt19937_64 random_;
};

// Memory of a device for one trial. put() copies, blank() leaves NaN of bf16 (and of f32) in every number.
class TrialMemory {
 public:
  explicit TrialMemory(Device& device) : device_(device) {}
  Result<std::byte*> reserve(std::size_t bytes);
  Result<Tensor> blank(DType dtype, std::initializer_list<std::int64_t> shape);
  template <class T>
  Result<Tensor> put(std::span<const T> numbers, DType dtype, std::initializer_list<std::int64_t> shape) {
    OCTAVO_TRY(std::byte* const data, reserve(numbers.size_bytes()));
    device_.upload(data, std::as_bytes(numbers));
    return Tensor(data, dtype, shape);
  }

 private:
  Device& device_;
  std::vector<Buffer> buffers_;
};

// Of differences and of what was to be.
class TrialError {
 public:
  void add(double got, double want) {
    differences_ += (got - want) * (got - want);
    wanted_ += want * want;
  }
  double relative() const { return wanted_ > 0 ? std::sqrt(differences_ / wanted_) : differences_; }

 private:
  double differences_ = 0, wanted_ = 0;
};

// Downloads bf16 numbers and finds whether all of them are numbers.
std::vector<std::uint16_t> downloaded_bf16(Device& device, const Tensor& numbers);
bool all_finite(std::span<const std::uint16_t> bf16);

struct TrialShape {
  std::int32_t num_seqs = 1;
  std::int32_t length = 1;  // query rows of a sequence, the last of its context; 1: a decode
  std::int32_t context = 0;

  bool decodes() const { return length == 1; }
  std::int64_t tokens() const { return std::int64_t{num_seqs} * length; }
  std::string name() const;  // "8 x 32k", "32k", "2k of 128k"
};
// Decodes of 1 x 1k, 1 x 128k, 8 x 8k and 8 x 32k; prefills of 8k, 32k and a chunk of 2k at the end of 128k.
std::vector<TrialShape> usual_shapes(KernelPhase phase);

class AttentionTrials {
 public:
  AttentionTrials(Backend& backend, std::uint64_t seed) : backend_(backend), seed_(seed) {}
  Result<KernelTrial> run(const KernelRow& row, const TrialShape& shape);

 private:
  struct Source;  // keys and values that caches are filled with, of one head size
  Result<std::shared_ptr<const Source>> source_of(const KernelRow& row);

  Backend& backend_;
  std::uint64_t seed_;
  std::shared_ptr<const Source> source_;  // of the last row
};

Result<std::vector<KernelTrial>> writer_trials(Backend& backend, const KernelRow& row, std::uint64_t seed);
Result<std::vector<KernelTrial>> linear_trials(Backend& backend, const KernelRow& row, std::uint64_t seed);

}  // namespace octavo
