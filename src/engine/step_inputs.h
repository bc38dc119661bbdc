// StepInputs: the device memory that one step's inputs lie in, at addresses that stay the same from step to step, and
// the way of a plan into it. The sampling lists may grow; everything else is reserved for the largest step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/step_plan.h"
#include "ops/ops.h"
#include "tensor/device.h"

namespace octavo {

struct StepLimits {
  int max_tokens = 0;
  int max_seqs = 0;   // in one step
  int max_pages = 0;  // of one sequence: the width of a page table
  int max_rows = 0;   // of logits
  int page_size = 0;
  int num_groups = 0;
};

// Device memory that grows to what is asked for.
class DeviceArray {
 public:
  Status ensure(Device& device, std::size_t bytes, const std::string& purpose);
  std::byte* data() const { return buffer_.data(); }
  std::size_t size() const { return buffer_.size(); }

 private:
  Buffer buffer_;
};

class StepInputs {
 public:
  static Result<std::unique_ptr<StepInputs>> create(Device& device, const StepLimits& limits);

  Status upload(const StepPlan& plan);
  Status ensure_rows(int max_rows);

  // Views of what upload() brought.
  BatchView batch() const { return batch_; }
  Tensor ids() const { return ids_; }
  Tensor sampled_rows() const { return rows_; }
  Tensor slots(int group) const { return slots_[static_cast<std::size_t>(group)]; }
  Tensor page_table(int group) const { return page_tables_[static_cast<std::size_t>(group)]; }
  // The sampled rows' settings; logits and out are the caller's.
  SampleArgs sampling() const { return sampling_; }
  const StepLimits& limits() const { return limits_; }

  // The shapes alone of the largest step there can be, with the memory's addresses: to measure with.
  void stretch();

 private:
  StepInputs(Device& device, const StepLimits& limits) : device_(device), limits_(limits) {}
  Status allocate();
  Tensor upload_ints(const DeviceArray& to, std::span<const std::int32_t> values) const;
  void upload_batch(const StepPlan& plan);
  void upload_group(const StepPlan& plan, std::size_t group);
  Status upload_sampling(const SampleBatch& sampling);

  Device& device_;
  StepLimits limits_;
  DeviceArray id_memory_, position_memory_, start_memory_, context_memory_, row_memory_;
  std::vector<DeviceArray> slot_memory_, table_memory_;
  DeviceArray setting_memory_, bias_id_memory_, bias_value_memory_, seen_id_memory_, seen_count_memory_;
  // What each row of the page tables holds, so that only rows that changed are uploaded.
  std::vector<std::vector<std::vector<std::int32_t>>> table_rows_;

  BatchView batch_;
  Tensor ids_, rows_;
  std::vector<Tensor> slots_, page_tables_;
  SampleArgs sampling_;
};

}  // namespace octavo
