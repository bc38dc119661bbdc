// What a wing's table of kernels says of itself, and what one row is run on: the contract by which kernels are listed
// and measured without knowing the wing. A wing without such a table answers with an empty list and a sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/ops.h"

namespace octavo {

enum class KernelPhase : std::uint8_t { decode, prefill, kv_write, linear };

constexpr std::string_view name_of(KernelPhase phase) {
  switch (phase) {
    case KernelPhase::decode:
      return "decode";
    case KernelPhase::prefill:
      return "prefill";
    case KernelPhase::kv_write:
      return "kv_write";
    case KernelPhase::linear:
      return "linear";
  }
  return "?";
}

struct KernelRow {
  std::string name;  // "portable.decode.d128.fp8_e4m3": unique in a wing
  KernelPhase phase = KernelPhase::decode;
  std::int32_t head_dim = 0;         // 0: not of heads; of a latent cache the latent's
  std::optional<KvElem> key, value;  // of attention; a writer takes every kind
  std::int32_t rope_dim = 0;         // numbers of a latent cache's rope keys; 0: K and V
  std::optional<DType> weight;       // of linear
  std::int32_t max_tokens = 0;       // rows of x that a linear row takes at once; 0: any number
  bool products_in_8_bits = false;   // which ceiling it runs against
  std::string architecture;          // of the machine code
  std::int32_t threads = 0;          // a block; 0: a library's choice
  std::int32_t shared_bytes = 0;     // a block, the most that a launch asks for
  // What only a device says: none without one.
  std::optional<std::int32_t> registers;    // a thread
  std::optional<std::int32_t> spill_bytes;  // a thread's memory beside its registers
};

struct KernelInventory {
  std::vector<KernelRow> rows;
  std::string note;  // why there are none, or why figures are missing; empty: nothing to say
};

// The work of a launch: exactly one of these. `out` and `query` are where results go.
struct AttentionWork {
  Query query;
  const KvView& kv;
  const BatchView& batch;  // decodes alone for a decode row, none for a prefill row
  AttentionRule rule;
  Tensor out;  // [tokens, q_heads, v_dim]
};
struct KernelWork {
  const AttentionWork* attention = nullptr;
  const KvWriteArgs* kv_write = nullptr;
  const LinearArgs* linear = nullptr;
};

// What this machine can do at best, measured when asked for.
struct ReadRate {
  std::int64_t bytes = 0;  // that are read again and again
  double gb_s = 0;
};
struct Ceilings {
  double read_gb_s = 0;          // memory, read only
  double bf16_tflop_s = 0;       // a large matrix product; 0: the wing has none in bf16
  double eight_bit_tflop_s = 0;  // the same in 8 bits; 0: the hardware has none
  double f32_tflop_s = 0;        // products and sums of float32 in registers; 0: not measured
  // Of a machine whose caches keep what a step reads until the next one: rising sizes, the last one memory.
  std::vector<ReadRate> reads = {};

  // Of the smallest size that holds so many bytes.
  double read_rate(std::int64_t bytes) const {
    for (const ReadRate& read : reads)
      if (bytes <= read.bytes) return read.gb_s;
    return read_gb_s;
  }
};

}  // namespace octavo
