// Kernels: which function serves a verb on a path. Every entry is set: a path that has no own function uses the plain
// one.
//
// A file compiled for an instruction set must not include a header with inline functions (this one included): the
// linker keeps one copy of each, and if that is the vector one, a processor without it stops. So such files hold static
// functions over raw pointers and plain structs; the functions of this table live in ordinary files that call them.
#pragma once

#include "base/parallel.h"
#include "cpu/isa.h"
#include "ops/ops.h"

namespace octavo::cpu {

// deterministic: each output element must be summed in an order that does not depend on the other rows of the call, nor
// on how a sequence was cut into calls.
struct Kernels {
  void (*linear)(ThreadPool& pool, const LinearArgs& args, bool deterministic);
  void (*head_linear)(ThreadPool& pool, const HeadLinearArgs& args);
  void (*grouped_linear)(ThreadPool& pool, const GroupedLinearArgs& args, bool deterministic);
  void (*attention)(ThreadPool& pool, const AttentionArgs& args, bool deterministic);
  void (*expanded_attention)(ThreadPool& pool, const ExpandedAttentionArgs& args);
  void (*kv_write)(ThreadPool& pool, const KvWriteArgs& args);
  void (*rms_norm)(ThreadPool& pool, const RmsNormArgs& args);
  void (*add_rms_norm)(ThreadPool& pool, const AddRmsNormArgs& args);
  void (*rope)(ThreadPool& pool, const RopeArgs& args);
  void (*gated_activation)(ThreadPool& pool, const GatedActivationArgs& args);
  void (*conv_update)(ThreadPool& pool, const ConvUpdateArgs& args);
  void (*delta_rule)(ThreadPool& pool, const DeltaRuleArgs& args, bool deterministic);
};

const Kernels& plain_kernels();
const Kernels& kernels_for(Isa isa);

}  // namespace octavo::cpu
