#include "cpu/row_verbs.h"

#include <algorithm>
#include <vector>

#include "cpu/plain.h"
#include "cpu/row_tasks.h"
#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

constexpr std::int64_t kNumbersOfPart = 8192;  // of a row or of several: a microsecond or two

ActivationRow row_of(const Tensor& x, std::int64_t i) { return {row_at(x, i), x.dtype() == DType::bf16}; }

template <class Work>
void each_row(ThreadPool& pool, std::int64_t rows, std::int64_t n, Work work) {
  const std::int64_t step = std::max<std::int64_t>(1, kNumbersOfPart / std::max<std::int64_t>(1, n));
  pool.run((rows + step - 1) / step, [&](std::int64_t part) {
    for (std::int64_t i = part * step; i < std::min(rows, (part + 1) * step); ++i) work(i);
  });
}

NormTask task_of(const NormRule& rule, DType compute, std::int64_t n) {
  NormTask task;
  task.n = n;
  task.weight = floats(rule.weight);
  check(task.weight == nullptr || rule.weight.elements() == n, "a norm's weight has one number a channel");
  task.eps = rule.eps;
  task.offset = rule.weight_offset;
  task.round_to_bf16 = compute == DType::bf16 && rule.rounded_first && task.weight != nullptr;
  return task;
}

void run_rms_norm(ThreadPool& pool, const RmsNormArgs& args, const RowKernels& kernels) {
  if (!is_activation(args.x) || !is_activation(args.out)) return plain::rms_norm(pool, args);
  const std::int64_t n = args.x.size(1);
  check(args.out.size(0) == args.x.size(0) && args.out.size(1) == n, "shapes of rms_norm");
  const NormTask rule = task_of(args.rule, args.x.dtype(), n);
  each_row(pool, args.x.size(0), n, [&](std::int64_t i) {
    NormTask task = rule;
    task.x = row_of(args.x, i);
    task.out = row_of(args.out, i);
    kernels.norm(task);
  });
}

void run_add_rms_norm(ThreadPool& pool, const AddRmsNormArgs& args, const RowKernels& kernels) {
  if (!is_activation(args.x) || !is_activation(args.residual) || !is_activation(args.out))
    return plain::add_rms_norm(pool, args);
  const std::int64_t n = args.x.size(1);
  check(args.residual.size(0) == args.x.size(0) && args.residual.size(1) == n, "shapes of add_rms_norm");
  check(args.out.size(0) == args.x.size(0) && args.out.size(1) == n, "shapes of add_rms_norm");
  const NormTask rule = task_of(args.rule, args.residual.dtype(), n);
  each_row(pool, args.x.size(0), n, [&](std::int64_t i) {
    NormTask task = rule;
    task.x = row_of(args.x, i);
    task.residual = row_of(args.residual, i);
    task.out = row_of(args.out, i);
    kernels.norm(task);
  });
}

GateKind kind_of(Activation kind) {
  switch (kind) {
    case Activation::silu:
      return GateKind::silu;
    case Activation::gelu_tanh:
      return GateKind::gelu_tanh;
    case Activation::sigmoid:
      return GateKind::sigmoid;
    case Activation::clamped_swish:
      return GateKind::clamped_swish;
  }
  return GateKind::silu;
}

// Numbers of gate and up that alternate in one row are brought together first.
void gate_apart(ThreadPool& pool, const GatedActivationArgs& args, const RowKernels& kernels) {
  const std::int64_t n = args.out.size(1);
  each_row(pool, args.out.size(0), n, [&](std::int64_t i) {
    std::vector<float> both(static_cast<std::size_t>(2 * n));
    float* const gate = both.data();
    float* const up = gate + n;
    load_row(row_at(args.gate, i), args.gate.dtype(), n, gate, args.gate.stride(1));
    load_row(row_at(args.up, i), args.up.dtype(), n, up, args.up.stride(1));
    kernels.gate({{gate, false}, {up, false}, row_of(args.out, i), n, kind_of(args.kind), args.limit});
  });
}

void run_gated_activation(ThreadPool& pool, const GatedActivationArgs& args, const RowKernels& kernels) {
  const std::int64_t n = args.out.size(1);
  if (!is_activation(args.gate) || !is_activation(args.up) || !is_activation(args.out))
    return plain::gated_activation(pool, args);
  check(args.gate.size(0) == args.out.size(0) && args.gate.size(1) == n && args.up.size(0) == args.out.size(0) &&
            args.up.size(1) == n,
        "shapes of gated_activation");
  if (args.gate.stride(1) != 1 || args.up.stride(1) != 1) return gate_apart(pool, args, kernels);
  each_row(pool, args.out.size(0), n, [&](std::int64_t i) {
    kernels.gate({row_of(args.gate, i), row_of(args.up, i), row_of(args.out, i), n, kind_of(args.kind), args.limit});
  });
}

}  // namespace

void avx512::rms_norm(ThreadPool& pool, const RmsNormArgs& args) { run_rms_norm(pool, args, kRowKernels); }
void avx512::add_rms_norm(ThreadPool& pool, const AddRmsNormArgs& args) { run_add_rms_norm(pool, args, kRowKernels); }
void avx512::gated_activation(ThreadPool& pool, const GatedActivationArgs& args) {
  run_gated_activation(pool, args, kRowKernels);
}

void avx2::rms_norm(ThreadPool& pool, const RmsNormArgs& args) { run_rms_norm(pool, args, kRowKernels); }
void avx2::add_rms_norm(ThreadPool& pool, const AddRmsNormArgs& args) { run_add_rms_norm(pool, args, kRowKernels); }
void avx2::gated_activation(ThreadPool& pool, const GatedActivationArgs& args) {
  run_gated_activation(pool, args, kRowKernels);
}

}  // namespace octavo::cpu
