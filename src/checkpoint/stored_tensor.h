// StoredTensor: one tensor as a file holds it: name, dtype, shape (outermost first, as safetensors writes it; GGUF's order is
// turned around) and its bytes, mapped. The owner keeps the mapping alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace octavo {

struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // checked against the file: in bounds, as many as dtype and shape need
  std::shared_ptr<const void> owner;
  std::string file;  // path, for messages

  std::string describe() const;  // "model.norm.weight bf16 [576]"
};

constexpr std::size_t kMaxStoredRank = 8;

std::string shape_text(std::span<const std::int64_t> shape);  // "[128, 64]"

// Bytes that `shape` numbers need (a scalar has shape []). Refuses negative sizes, partial blocks and more than 2^62 bytes.
Result<std::int64_t> stored_bytes(DType dtype, std::span<const std::int64_t> shape);

// All numbers as f32, whatever the alignment; f32, f16, bf16, f64 and e8m0 only. For vectors and scales.
Result<std::vector<float>> read_floats(const StoredTensor& tensor);

}  // namespace octavo
