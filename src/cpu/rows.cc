#include "cpu/rows.h"

#include <cstring>

#include "tensor/float8.h"

namespace octavo::cpu {

namespace {

template <class T>
T number_at(const std::byte* from, std::int64_t i) {
  T number;
  std::memcpy(&number, from + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));  // mapped files are not aligned
  return number;
}

template <class T>
void put_number(std::byte* to, std::int64_t i, T number) {
  std::memcpy(to + i * static_cast<std::int64_t>(sizeof(T)), &number, sizeof(T));
}

}  // namespace

std::byte* row_at(const Tensor& tensor, std::int64_t i) {
  return tensor.raw() + dtype_bytes(tensor.dtype(), i * tensor.stride(0));
}

std::byte* row_at(const Tensor& tensor, std::int64_t i, std::int64_t j) {
  return tensor.raw() + dtype_bytes(tensor.dtype(), i * tensor.stride(0) + j * tensor.stride(1));
}

void load_row(const std::byte* from, DType dtype, std::int64_t n, float* to, std::int64_t stride) {
  switch (dtype) {
    case DType::f32:
      for (std::int64_t i = 0; i < n; ++i) to[i] = number_at<float>(from, i * stride);
      return;
    case DType::bf16:
      for (std::int64_t i = 0; i < n; ++i) to[i] = f32_from_bf16(number_at<std::uint16_t>(from, i * stride));
      return;
    case DType::f16:
      for (std::int64_t i = 0; i < n; ++i) to[i] = f32_from_f16(number_at<std::uint16_t>(from, i * stride));
      return;
    default:
      check(false, "activations are f32, bf16 or f16");
  }
}

void store_row(const float* from, std::int64_t n, std::byte* to, DType dtype) {
  switch (dtype) {
    case DType::f32:
      std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
      return;
    case DType::bf16:
      for (std::int64_t i = 0; i < n; ++i) put_number(to, i, bf16_from_f32(from[i]));
      return;
    case DType::f16:
      for (std::int64_t i = 0; i < n; ++i) put_number(to, i, f16_from_f32(from[i]));
      return;
    default:
      check(false, "activations are f32, bf16 or f16");
  }
}

bool is_activation(const Tensor& tensor) { return tensor.dtype() == DType::f32 || tensor.dtype() == DType::bf16; }

TokenRows token_rows(const Tensor& tensor, std::byte* first) {
  return {first, tensor.stride(0), tensor.dtype() == DType::bf16};
}

float rounded_to(DType dtype, float x) {
  switch (dtype) {
    case DType::bf16:
      return f32_from_bf16(bf16_from_f32(x));
    case DType::f16:
      return f32_from_f16(f16_from_f32(x));
    default:
      return x;
  }
}

const std::int32_t* ints(const Tensor& tensor) {
  check(tensor.empty() || (tensor.dtype() == DType::i32 && tensor.contiguous()), "expected contiguous i32 numbers");
  return tensor.data<std::int32_t>();
}

const float* floats(const Tensor& tensor) {
  check(tensor.empty() || (tensor.dtype() == DType::f32 && tensor.contiguous()), "expected contiguous f32 numbers");
  return tensor.data<float>();
}

}  // namespace octavo::cpu
