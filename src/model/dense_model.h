// DenseModel: a Model that is one Decoder. Families whose layers are attention and MLP make theirs with it.
#pragma once

#include <memory>

#include "model/blocks/decoder.h"

namespace octavo {

class DenseModel final : public Model {
 public:
  // names: how the checkpoint at hand spells this family's tensors.
  DenseModel(ModelSpec spec, const DecoderConfig& config, NameMap names, RankOf rank)
      : spec_(std::move(spec)), names_(std::move(names)), decoder_(config, rank) {}

  const ModelSpec& spec() const override { return spec_; }
  NameMap names() const override { return names_; }
  Status visit(Binder& binder) override { return decoder_.visit(binder, "model"); }
  std::vector<KvScales> kv_scales() const override { return decoder_.kv_scales(); }
  Tensor forward(Step& step) override { return decoder_.forward(step); }

 private:
  ModelSpec spec_;
  NameMap names_;
  Decoder decoder_;
};

}  // namespace octavo
