// grouped_linear on the tensor cores: choices sorted by expert on the device, in tiles of one expert's, so that a
// weight is read once for a tile. Few choices an expert: tiles of eight, whose blocks split the row, and reading the
// weights is all the time there is. Many: tiles of 64 and 128 numbers of the result a block.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "ops/ops.h"

namespace octavo::cuda {

struct Grouping;

// Whether the experts' form is served: one dtype, aligned rows of a multiple of 64 numbers, parts of a multiple of 16.
bool fit_grouped_tiles(std::span<const Weight> experts);
// Whether the rows are, for such experts: aligned bf16.
bool takes_grouped_tiles(const GroupedLinearArgs& args);
// `scratch` is used while the launches run, whose count and shapes depend on the arguments' shapes alone. `alike`:
// every row is computed in one way, however many there are.
void grouped_tiles(cudaStream_t stream, const GroupedLinearArgs& args, const Grouping& grouping,
                   std::span<std::byte> scratch, bool alike);

}  // namespace octavo::cuda
