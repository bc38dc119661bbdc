// PagePlan: a step's attention as lists of work in device memory, made by one small kernel from the lengths there.
//
// Decodes: the visible pages of a sequence are cut into at most 32 splits, a function of its context alone, so the rest
// of the batch changes no bit of it. Prefills: tiles of kTileRows rows (token and head of the group packed), the last
// first. Memory is reserved when a plan is made, for the largest step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo::cuda {

constexpr int kMaxSplits = 32;
constexpr int kDecodeRows = 16;
constexpr int kTileRows = 128;

struct alignas(16) DecodeItem {
  std::int32_t seq;
  std::int32_t token;    // the sequence's row
  std::int32_t context;  // tokens in its cache
  std::int32_t first_page;
  std::int32_t num_pages;
  std::int32_t split;
  std::int32_t splits;
};
struct PrefillItem {
  std::int32_t seq;
  std::int32_t first_row;  // of the sequence's packed rows
};

struct PlanView {
  const DecodeItem* decodes = nullptr;
  const PrefillItem* prefills = nullptr;
  const std::int32_t* counts = nullptr;  // decodes, prefills
  float* partial = nullptr;              // [seq, split, q_head, width]
  float2* partial_sums = nullptr;        // [seq, split, q_head]: maximum, sum
  std::uint32_t* arrivals = nullptr;     // [seq, kv_head, tile of rows], zero between launches
};

class PagePlan final : public AttentionPlan {
 public:
  static Result<std::unique_ptr<PagePlan>> create(Device& device, const AttentionShape& shape, int max_seqs,
                                                  int max_tokens);
  void make(cudaStream_t stream, const PlanAttentionArgs& args);
  PlanView view() const;
  std::int32_t num_processors() const { return num_processors_; }
  std::int32_t max_prefills(std::int64_t tokens, int num_seqs, int group) const;

 private:
  PagePlan(const AttentionShape& shape, int max_seqs, int max_tokens)
      : q_heads_(shape.q_heads),
        kv_heads_(shape.format.segments[0].heads),
        width_(shape.format.segments[1].width),
        max_seqs_(max_seqs),
        max_tokens_(max_tokens) {}
  Status reserve(Device& device);

  std::int32_t q_heads_;
  std::int32_t kv_heads_;
  std::int32_t width_;
  std::int32_t max_seqs_;
  std::int32_t max_tokens_;
  std::int32_t num_processors_ = 0;
  Buffer decodes_, prefills_, counts_, partial_, partial_sums_, arrivals_;
};

}  // namespace octavo::cuda
