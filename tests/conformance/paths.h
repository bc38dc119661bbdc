// The backend paths that a conformance test runs over: every path of the processor that is here, alone and
// deterministic, and the NVIDIA wing where it is built and has a device. One body an op serves all of them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ops/backend.h"

namespace octavo::conformance {

struct Path {
  std::string name;  // "avx2, deterministic"
  bool plain = false;
  bool deterministic = false;
  bool processor = false;  // float32 sums of exact numbers: tight bounds, and pages laid out alike
  bool whole_chunks = false;  // but for chunks with bf16 results, whose products are of 16-bit whole numbers
  std::unique_ptr<Backend> backend;
};

// Calls `body` for each path, and names the path in every failure inside.
void for_each_path(const std::function<void(Path&)>& body);

}  // namespace octavo::conformance
