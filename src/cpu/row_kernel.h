// Norms and gated activations of the vector paths: templates over a Vec, included by rows_<isa>.cc alone.
#pragma once

#include "cpu/row_tasks.h"

namespace octavo::cpu {

// Rows of any length: the last registers go through a copy.
template <class V>
class RowAccess {
 public:
  using F = typename V::F;

  static ActivationRow row_of(const TokenRows& rows, std::int64_t token) {
    if (rows.is_bf16) return {static_cast<std::uint16_t*>(rows.data) + token * rows.stride, true};
    return {static_cast<float*>(rows.data) + token * rows.stride, false};
  }
  static F load(const ActivationRow& row, std::int64_t at, std::int64_t n) {
    if (n - at < V::kLanes) return load_last(row, at, n - at);
    return row.is_bf16 ? V::from_bf16(static_cast<const std::uint16_t*>(row.data) + at)
                       : V::load(static_cast<const float*>(row.data) + at);
  }
  static void store(const ActivationRow& row, std::int64_t at, std::int64_t n, F x) {
    if (n - at < V::kLanes) return store_last(row, at, n - at, x);
    if (row.is_bf16)
      V::to_bf16(static_cast<std::uint16_t*>(row.data) + at, x);
    else
      V::store(static_cast<float*>(row.data) + at, x);
  }
  static F load_floats(const float* p, std::int64_t at, std::int64_t n) {
    return load({const_cast<float*>(p), false}, at, n);
  }
  static F rounded(F x) {
    std::uint16_t bits[V::kLanes];
    V::to_bf16(bits, x);
    return V::from_bf16(bits);
  }

 private:
  static F load_last(const ActivationRow& row, std::int64_t at, std::int64_t count) {
    std::uint16_t halves[V::kLanes] = {};
    float numbers[V::kLanes] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      if (row.is_bf16)
        halves[i] = static_cast<const std::uint16_t*>(row.data)[at + i];
      else
        numbers[i] = static_cast<const float*>(row.data)[at + i];
    }
    return row.is_bf16 ? V::from_bf16(halves) : V::load(numbers);
  }
  static void store_last(const ActivationRow& row, std::int64_t at, std::int64_t count, F x) {
    std::uint16_t halves[V::kLanes];
    float numbers[V::kLanes];
    V::to_bf16(halves, x);
    V::store(numbers, x);
    for (std::int64_t i = 0; i < count; ++i) {
      if (row.is_bf16)
        static_cast<std::uint16_t*>(row.data)[at + i] = halves[i];
      else
        static_cast<float*>(row.data)[at + i] = numbers[i];
    }
  }
};

template <class V>
float norm_factor(typename V::F squares, std::int64_t n, float eps) {
  return static_cast<float>(
      1.0 / __builtin_sqrt(static_cast<double>(V::sum(squares)) / static_cast<double>(n) + static_cast<double>(eps)));
}

template <class V>
void run_norm(const NormTask& task) {
  using Rows = RowAccess<V>;
  using F = typename V::F;
  const bool adds = task.residual.data != nullptr;
  const ActivationRow from = adds ? task.residual : task.x;
  F squares = V::zero();
  for (std::int64_t i = 0; i < task.n; i += V::kLanes) {
    F x = Rows::load(task.x, i, task.n);
    if (adds) {
      x = V::add(Rows::load(task.residual, i, task.n), x);
      if (task.residual.is_bf16) x = Rows::rounded(x);
      Rows::store(task.residual, i, task.n, x);
    }
    squares = V::fma(x, x, squares);
  }
  const F factor = V::all(norm_factor<V>(squares, task.n, task.eps));
  const F offset = V::all(task.offset);
  for (std::int64_t i = 0; i < task.n; i += V::kLanes) {
    F y = V::mul(Rows::load(from, i, task.n), factor);
    if (task.round_to_bf16) y = Rows::rounded(y);
    if (task.weight != nullptr) y = V::mul(V::add(Rows::load_floats(task.weight, i, task.n), offset), y);
    Rows::store(task.out, i, task.n, y);
  }
}

template <class V>
class Gate {
 public:
  using F = typename V::F;

  static void run(const GateTask& task) {
    using Rows = RowAccess<V>;
    for (std::int64_t i = 0; i < task.n; i += V::kLanes) {
      const F gate = Rows::load(task.gate, i, task.n);
      const F up = Rows::load(task.up, i, task.n);
      Rows::store(task.out, i, task.n, activate(task, gate, up));
    }
  }

 private:
  static F activate(const GateTask& task, F gate, F up) {
    switch (task.kind) {
      case GateKind::silu:
        return V::mul(up, sigmoid_times(gate, gate));
      case GateKind::gelu_tanh: {  // (1 + tanh(u)) / 2 is the sigmoid of 2 u
        const F cube = V::mul(V::mul(gate, gate), gate);
        const F u = V::mul(V::all(1.5957691216057308f), V::fma(cube, V::all(0.044715f), gate));
        return V::mul(up, sigmoid_times(gate, u));
      }
      case GateKind::sigmoid:
        return sigmoid_times(up, gate);
      case GateKind::clamped_swish: {
        const F g = V::min(V::all(task.limit), gate);
        const F u = V::max(V::all(-task.limit), V::min(V::all(task.limit), up));
        return V::mul(V::add(u, V::all(1.0f)), sigmoid_times(g, V::mul(V::all(1.702f), g)));
      }
    }
    return V::zero();
  }
  // a sigmoid(x)
  static F sigmoid_times(F a, F x) { return V::div(a, V::add(V::all(1.0f), V::exp(V::sub(V::zero(), x)))); }
};

}  // namespace octavo::cpu
