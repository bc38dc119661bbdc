// Backend: one rank's device, arithmetic and collectives. Made by `app`, used by the engine, which never knows which it
// is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ops/comm.h"
#include "ops/kernel_row.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device& device() = 0;
  virtual Ops& ops() = 0;
  virtual Comm& comm() = 0;

  // Whether every layer of this shape can be served; the sentence names what cannot, and what could.
  virtual Status supports(const AttentionShape& shape) const = 0;
  // Whether layers that keep a recurrent state can be served: conv_update, delta_gates, delta_rule.
  virtual Status supports_states() const { return {}; }
  // Whether activations of this dtype (bf16, f32) can be computed.
  virtual Status supports_compute(DType compute) const = 0;

  // Once for each weight of linear() after it is loaded, before products are asked for with activations of `compute`:
  // the wing may put a form of it beside it that its products read faster. An error where there is no memory for it.
  virtual Status prepare(Weight&, DType) { return {}; }

  // With how many sequences a step of so many decodes is recorded and replayed, the missing ones as padding; 0: steps
  // of this size are not worth a recording.
  virtual int recorded_batch(int num_seqs) const = 0;

  // The instruments of kernels. Every row that this wing chooses from; a launch of the row of that name on this work,
  // whose time in ms it tells (the median of several, after a warm-up); what the machine can do at best. A wing without
  // a table of kernels leaves these as they are.
  virtual KernelInventory inventory() const {
    return {.rows = {}, .note = "the processor has no table of kernels: octavo bench verbs measures its arithmetic"};
  }
  virtual Result<double> run_row(const std::string&, const KernelWork&) {
    return Error(inventory().note, ErrorKind::unsupported);
  }
  virtual Result<Ceilings> ceilings() { return Error(inventory().note, ErrorKind::unsupported); }
};

// The backends of a model that is not shared.
inline std::vector<std::unique_ptr<Backend>> only_rank(std::unique_ptr<Backend> backend) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::move(backend));
  return backends;
}

// Makes the backends of all ranks of one model, in order of rank; their comms belong together.
using BackendFactory = std::function<Result<std::vector<std::unique_ptr<Backend>>>(int num_ranks)>;

}  // namespace octavo
