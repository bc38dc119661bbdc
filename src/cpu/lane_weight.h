// LaneWeight: packed weights laid out for lane_tile.h, in as many bytes as they had. Sixteen rows make a block: for
// each 32 columns the rows' f16 steps (and bases) side by side, then for each 32 columns their codes, four of a row
// beside four of the next.
#pragma once

#include <memory>
#include <vector>

#include "base/parallel.h"
#include "cpu/lane_tile.h"
#include "tensor/device.h"
#include "tensor/weight.h"

namespace octavo::cpu {

class LaneWeight final : public WeightForm {
 public:
  // q4_0, q4_1 and q8_0, whole blocks of rows in each part.
  static bool takes(const Weight& weight);
  static Result<std::shared_ptr<const LaneWeight>> make(ThreadPool& pool, Device& device, const Weight& weight);

  // A tile for each part with all its blocks; of x, bias and result nothing is set.
  const std::vector<LaneTile>& parts() const { return parts_; }

 private:
  Buffer memory_;
  std::vector<LaneTile> parts_;
};

}  // namespace octavo::cpu
