// RankComm: the collectives between ranks that are threads of this process. Each rank computes its part of a sum, in
// float32 and in the order of ranks, and writes it to all.
#pragma once

#include <memory>
#include <vector>

#include "base/rendezvous.h"
#include "ops/comm.h"

namespace octavo::cpu {

// What the ranks of one model share. A rank writes its own entry before a meeting; all read them between two.
struct RankGroup {
  explicit RankGroup(int size) : meeting(size), given(static_cast<std::size_t>(size)) {}
  Rendezvous meeting;
  std::vector<Tensor> given;  // by rank
};

class RankComm final : public Comm {
 public:
  RankComm(std::shared_ptr<RankGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->given.size()); }
  void all_reduce(const Tensor& x) override;
  void all_gather_columns(const Tensor& x, const Tensor& out) override;
  void give_up() override { group_->meeting.give_up(); }
  Status restore() override;

 private:
  // False: the step was given up.
  bool offer(const Tensor& x);

  std::shared_ptr<RankGroup> group_;
  int rank_;
};

}  // namespace octavo::cpu
