// Rows of numbers of any activation dtype (f32, f16, bf16) as float32 and back, nearest even. For the plain verbs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/row_tasks.h"
#include "tensor/tensor.h"

namespace octavo::cpu {

// Where row i of a tensor begins (rank 2), or row (i, j) (rank 3).
std::byte* row_at(const Tensor& tensor, std::int64_t i);
std::byte* row_at(const Tensor& tensor, std::int64_t i, std::int64_t j);

// n numbers, `stride` elements apart.
void load_row(const std::byte* from, DType dtype, std::int64_t n, float* to, std::int64_t stride = 1);
void store_row(const float* from, std::int64_t n, std::byte* to, DType dtype);

// Whether its rows are ones of the vector paths (ActivationRow): f32 or bf16.
bool is_activation(const Tensor& tensor);
// The rows of consecutive tokens, of which `first` is the first one's place in the tensor.
TokenRows token_rows(const Tensor& tensor, std::byte* first);

// x as the dtype holds it.
float rounded_to(DType dtype, float x);

// i32 numbers of a contiguous tensor.
const std::int32_t* ints(const Tensor& tensor);
const float* floats(const Tensor& tensor);  // nullptr for an empty one

}  // namespace octavo::cpu
