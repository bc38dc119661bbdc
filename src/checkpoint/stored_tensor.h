// StoredTensor: one tensor as a file holds it: name, dtype, shape (outermost first, as safetensors writes it; GGUF's order is
// turned around) and its bytes, mapped. The owner keeps the mapping alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

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

}  // namespace octavo
