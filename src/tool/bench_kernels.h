// `octavo bench kernels`: every row of the wing's table of kernels at fixed shapes, with its rate, the share of what
// this machine can do (measured in the same call), registers, spills, and the error against a reference in double.
// Ends with an error if a row is wrong; refuses wings without such a table.
#pragma once

#include <cstdint>
#include <string>

#include "ops/backend.h"

namespace octavo {

struct BenchKernelsOptions {
  std::string rows = "*";  // names with * and ?
  std::uint64_t seed = 0;
  std::string output_json;  // or empty
  std::string report_file;  // one HTML page, or empty
};
Status bench_kernels(const BenchKernelsOptions& options, const BackendFactory& make_backend);

}  // namespace octavo
