// StepInputs: the device memory that one step's inputs lie in, and the way of a plan into it. All but page tables and
// sampling lists lies side by side and is brought by one copy; where a piece lies follows from the numbers of tokens,
// sequences and rows alone, so that a step recorded once can be replayed. The sampling lists may grow; everything else
// is reserved for the largest step.
//
// A token that the step before draws is not known to the host when this one is launched: ids() are gathered on the
// device from what was drawn and from the known ids.
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
  int num_groups = 0;  // that are attended
  int num_state_groups = 0;
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

  // The views then hold padded_seqs sequences, or those of the plan for 0. Each one that the plan lacks decodes a token
  // into the sink page, and nobody reads what is drawn for it; a plan that is padded has decodes only.
  Status upload(const StepPlan& plan, int padded_seqs);
  Status ensure_rows(int max_rows);

  // Views of what upload() brought.
  BatchView batch() const { return batch_; }
  Tensor ids() const { return ids_; }
  GatherArgs id_gathering() const { return {id_source_, id_index_, ids_.reshaped({ids_.size(0), 1})}; }
  Tensor drawn() const { return drawn_; }  // i32 [max_rows]: where sampling leaves its tokens for the next step
  Tensor sampled_rows() const { return rows_; }
  Tensor slots(int group) const { return slots_[static_cast<std::size_t>(group)]; }
  Tensor page_table(int group) const { return page_tables_[static_cast<std::size_t>(group)]; }
  // i32 [num_seqs]: of the state groups, counted from the first of them. Padding has the sink's record.
  Tensor records(int state_group) const { return records_[static_cast<std::size_t>(state_group)]; }
  // The sampled rows' settings; logits and out are the caller's.
  SampleArgs sampling() const { return sampling_; }
  const StepLimits& limits() const { return limits_; }

  // The shapes alone of the largest step there can be, with the memory's addresses: to measure with.
  void stretch();

 private:
  struct Pieces;  // the contents of the block, padding included

  StepInputs(Device& device, const StepLimits& limits) : device_(device), limits_(limits) {}
  Status allocate_block();
  void fill_batch(const StepPlan& plan, Pieces& pieces);
  void fill_group(const StepPlan& plan, std::size_t group, Pieces& pieces);
  void fill_records(const StepPlan& plan, std::size_t group, Pieces& pieces) const;
  void lay_out(const Pieces& pieces);
  Tensor put(std::span<const std::byte> bytes, DType dtype, std::int64_t count);
  Tensor put_ints(std::span<const std::int32_t> values);
  Status upload_lists(const SampleBatch& sampling);

  Device& device_;
  StepLimits limits_;
  DeviceArray block_;               // drawn tokens, then the pieces
  std::vector<std::byte> staging_;  // the pieces on the host
  DeviceArray id_memory_;
  std::vector<DeviceArray> table_memory_;
  DeviceArray bias_id_memory_, bias_value_memory_, seen_id_memory_, seen_count_memory_;
  // What each row of the page tables holds, so that only rows that changed are uploaded.
  std::vector<std::vector<std::vector<std::int32_t>>> table_rows_;

  BatchView batch_;
  Tensor drawn_, id_source_, id_index_, ids_, rows_;
  std::vector<Tensor> slots_, page_tables_, records_;
  SampleArgs sampling_;
};

}  // namespace octavo
