// The processor's wing: the embedded default and the oracle of the tests.
//
// `plain` is written for reading and sums in double where it matters; the other paths use vector instructions and are
// chosen at run time by what the processor has. Every path computes each output element in an order that depends on its
// own inputs only, with `deterministic`: alone or in a batch, whole or in chunks, the bits are the same.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "cpu/isa.h"
#include "ops/backend.h"

namespace octavo::cpu {

struct Config {
  int num_threads = 0;  // 0: the CPUs this process may run on
  Isa isa = Isa::plain;
  bool deterministic = false;
};

// Refuses an isa that the processor lacks.
Result<std::unique_ptr<Backend>> make_backend(const Config& config);

// Of the ranks of one model, which are threads of this process and share its CPUs: each has its part of num_threads, at
// least one.
Result<std::vector<std::unique_ptr<Backend>>> make_backends(const Config& config, int num_ranks);

}  // namespace octavo::cpu
