// TimedComm: collectives whose sums are another's, each waited for and noted in a timeline. They take as long as the
// slowest rank lets the others wait. One rank alone has nothing to note.
#pragma once

#include "ops/comm.h"
#include "tensor/device.h"
#include "tool/verb_timeline.h"

namespace octavo {

class TimedComm final : public Comm {
 public:
  TimedComm(Comm& inner, Device& device, VerbTimeline& timeline)
      : inner_(inner), device_(device), timeline_(timeline) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(const Tensor& x) override;
  void all_gather_columns(const Tensor& x, const Tensor& out) override;
  void give_up() override { inner_.give_up(); }
  Status restore() override { return inner_.restore(); }

 private:
  Comm& inner_;
  Device& device_;
  VerbTimeline& timeline_;
};

}  // namespace octavo
