// Which kernels serve a shape on this device, and how they are launched: asked at start, never in a step.
//
// On Hopper its own kernels come first and portable ones serve the rest. Where a head's tiles do not fit into a block's
// shared memory the kernels of wide heads take over; what neither serves is refused by name.
#pragma once

#include <vector>

#include "base/result.h"
#include "cuda/portable/latent_params.h"
#include "cuda/portable/params.h"
#include "ops/ops.h"

namespace octavo::cuda {

struct RowLaunch {
  const portable::KernelRow* row = nullptr;
  void (*latent_kernel)(portable::LatentParams) = nullptr;  // of a latent cache, in the row's place
  int shared_bytes = 0;
  int blocks = 0;  // of a processor, at once
};

// Whether this wing's kernels serve the shape where a block may have so much shared memory.
Status rows_serve(const AttentionShape& shape, int shared_limit);

// Whether the row reads caches of these kinds. A latent is key and value at once, and rope keys may be of any kind.
bool has_kinds(const portable::KernelRow& row, const KvFormat& format);

// Bytes of shared memory that a block may ask for on the device in use; 0: there is none.
int shared_limit();

// The rows of the shape's head size for all kinds of K and V, ready for launches, the first of its kinds to be chosen:
// layers of a group may differ in kinds.
// A deterministic set has none of Hopper's: sums in its tensor core depend on what zeros are multiplied with, and V
// beyond a row's own tokens is zeros or the tokens of a longer chunk.
Result<std::vector<RowLaunch>> ready_rows(const AttentionShape& shape, bool deterministic);

}  // namespace octavo::cuda
