// What a launch of latent attention is told, and the table of what is built. Plain data, host and device.
//
// One KV head for all queries: keys are latent and rope key side by side, values the latents. A kernel serves one kind
// of latents and a phase, widths up to those of latent_layout.cuh, and rope keys of any kind. Work is listed as for
// other attention: tiles of rows, heads packed within tokens.
#pragma once

#include "cuda/latent_layout.cuh"
#include "cuda/portable/params.h"

namespace octavo::cuda::portable {

struct LatentParams {
  AttentionParams attention;  // its layout: the width of latents alone
  LatentLayout layout;
  const float* latent_scale = nullptr;  // one, given; or null
  const float* rope_scale = nullptr;
};

struct LatentRow {
  KernelRow row;  // key and value: of latents; its kernel is this one's
  void (*kernel)(LatentParams);
};

std::span<const LatentRow> latent_rows();

}  // namespace octavo::cuda::portable
