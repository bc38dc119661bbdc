#include "cpu/kernels.h"

#include "cpu/plain.h"
#include "cpu/row_verbs.h"
#include "cpu/tiled_attention.h"
#include "cpu/tiled_conv_update.h"
#include "cpu/tiled_delta_rule.h"
#include "cpu/tiled_expanded_attention.h"
#include "cpu/tiled_grouped_linear.h"
#include "cpu/tiled_head_linear.h"
#include "cpu/tiled_linear.h"

namespace octavo::cpu {

namespace {

constexpr Kernels kPlain{
    .linear = plain::linear,
    .head_linear = plain::head_linear,
    .grouped_linear = plain::grouped_linear,
    .attention = plain::attention,
    .expanded_attention = plain::expanded_attention,
    .kv_write = plain::kv_write,
    .rms_norm = plain::rms_norm,
    .add_rms_norm = plain::add_rms_norm,
    .rope = plain::rope,
    .gated_activation = plain::gated_activation,
    .conv_update = plain::conv_update,
    .delta_rule = plain::delta_rule,
};

constexpr Kernels kAvx512 = [] {
  Kernels kernels = kPlain;
  kernels.linear = avx512::linear;
  kernels.head_linear = avx512::head_linear;
  kernels.grouped_linear = avx512::grouped_linear;
  kernels.attention = avx512::attention;
  kernels.expanded_attention = avx512::expanded_attention;
  kernels.kv_write = avx512::kv_write;
  kernels.rms_norm = avx512::rms_norm;
  kernels.add_rms_norm = avx512::add_rms_norm;
  kernels.gated_activation = avx512::gated_activation;
  kernels.conv_update = avx512::conv_update;
  kernels.delta_rule = avx512::delta_rule;
  return kernels;
}();

constexpr Kernels kAvx512Vnni = [] {
  Kernels kernels = kAvx512;
  kernels.linear = avx512vnni::linear;
  kernels.attention = avx512vnni::attention;
  return kernels;
}();

constexpr Kernels kAvx2 = [] {
  Kernels kernels = kPlain;
  kernels.linear = avx2::linear;
  kernels.head_linear = avx2::head_linear;
  kernels.grouped_linear = avx2::grouped_linear;
  kernels.attention = avx2::attention;
  kernels.expanded_attention = avx2::expanded_attention;
  kernels.kv_write = avx2::kv_write;
  kernels.rms_norm = avx2::rms_norm;
  kernels.add_rms_norm = avx2::add_rms_norm;
  kernels.gated_activation = avx2::gated_activation;
  kernels.conv_update = avx2::conv_update;
  kernels.delta_rule = avx2::delta_rule;
  return kernels;
}();

}  // namespace

const Kernels& plain_kernels() { return kPlain; }

const Kernels& kernels_for(Isa isa) {
  switch (isa) {
    case Isa::plain:
      return kPlain;
    case Isa::avx2:
      return kAvx2;
    case Isa::avx512:
      return kAvx512;
    case Isa::avx512vnni:
    case Isa::amx:
      return kAvx512Vnni;
  }
  return kPlain;
}

}  // namespace octavo::cpu
