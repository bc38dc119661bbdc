// PagePlan: a step's attention as lists of work in device memory, made by one small kernel from the lengths there.
//
// Decodes: the visible pages of a sequence are cut into at most 32 splits, or 255 of wide heads and latents, of a size
// that keeps all processors at work to the end: it depends on the whole step, and the last bits of a decode with it.
// Memory for partial results is that of a few splits for each processor, not of the most for each sequence. Prefills:
// tiles of rows (token and head of the group packed), the last first; a list for each size that rows of the table want,
// for layers of a group may differ in kinds. Memory is reserved when a plan is made, for the largest step, and kernels
// are made ready for launches there.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/attention_rows.h"
#include "tensor/device.h"

namespace octavo::cuda {

class PagePlan final : public AttentionPlan {
 public:
  static Result<std::unique_ptr<PagePlan>> create(Device& device, const AttentionShape& shape, int max_seqs,
                                                  int max_tokens, bool deterministic);
  void make(cudaStream_t stream, const PlanAttentionArgs& args);
  PlanView view(const portable::KernelRow& row) const;
  std::int32_t q_heads() const { return q_heads_; }
  std::int32_t kv_heads() const { return kv_heads_; }
  std::int32_t width() const { return width_; }  // of a result
  std::int32_t num_processors() const { return num_processors_; }
  std::int32_t max_prefills(std::int64_t tokens, int num_seqs, std::int32_t tile_rows) const;
  const RowLaunch& launch(const KvFormat& format, portable::Phase phase) const;

 private:
  PagePlan(const AttentionShape& shape, int max_seqs, int max_tokens)
      : q_heads_(shape.q_heads),
        kv_heads_(shape.format.segments[0].heads),
        width_(shape.format.segments[is_latent(shape.format) ? 0 : 1].width),
        max_seqs_(max_seqs),
        max_tokens_(max_tokens) {}
  Status reserve(Device& device);
  PrefillItem* list(int i) const;

  std::int32_t q_heads_;
  std::int32_t kv_heads_;
  std::int32_t width_;
  std::int32_t max_seqs_;
  std::int32_t max_tokens_;
  std::int32_t max_decodes_ = 0;                         // splits of all decodes
  std::array<std::int32_t, kMaxTileSizes> tile_rows_{};  // of each list; 0: none
  std::int32_t num_processors_ = 0;
  std::vector<RowLaunch> launches_;
  Buffer decodes_, prefills_, counts_, partial_, partial_sums_, arrivals_;
};

}  // namespace octavo::cuda
