// Norm: an RMSNorm with its weight. The rule (rounding, offset, eps) is the family's.
#pragma once

#include <string>

#include "model/model.h"

namespace octavo {

class Norm {
 public:
  Norm() = default;
  Norm(int width, float eps, bool rounded_first = true, float weight_offset = 0) : width_(width) {
    rule_.eps = eps;
    rule_.rounded_first = rounded_first;
    rule_.weight_offset = weight_offset;
  }

  Status visit(Binder& binder, const std::string& name) {
    return binder.vector(rule_.weight, name + ".weight", width_);
  }

  // out = norm(x); [tokens, width].
  void apply(Step& step, const Tensor& x, const Tensor& out) const { step.ops.rms_norm({x, rule_, out}); }
  // residual += x, out = norm(residual).
  void add_apply(Step& step, const Tensor& x, const Tensor& residual, const Tensor& out) const {
    step.ops.add_rms_norm({x, residual, rule_, out});
  }

  const NormRule& rule() const { return rule_; }

 private:
  int width_ = 0;
  NormRule rule_;
};

}  // namespace octavo
