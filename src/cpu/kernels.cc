#include "cpu/kernels.h"

#include "cpu/plain.h"

namespace octavo::cpu {

namespace {

constexpr Kernels kPlain{
    .linear = plain::linear,
    .grouped_linear = plain::grouped_linear,
    .attention = plain::attention,
    .kv_write = plain::kv_write,
    .rms_norm = plain::rms_norm,
    .add_rms_norm = plain::add_rms_norm,
    .rope = plain::rope,
    .gated_activation = plain::gated_activation,
    .delta_rule = plain::delta_rule,
};

}  // namespace

const Kernels& plain_kernels() { return kPlain; }

const Kernels& kernels_for(Isa isa) {
  switch (isa) {
    case Isa::plain:
    case Isa::avx2:
    case Isa::avx512:
    case Isa::amx: return kPlain;
  }
  return kPlain;
}

}  // namespace octavo::cpu
