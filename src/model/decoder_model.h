// DecoderModel: a Model that is one DecoderStack.
#pragma once

#include "model/blocks/decoder_stack.h"

namespace octavo {

class DecoderModel final : public Model {
 public:
  // names: how the checkpoint at hand spells this family's tensors.
  DecoderModel(ModelSpec spec, NameMap names, DecoderStack decoder)
      : spec_(std::move(spec)), names_(std::move(names)), decoder_(std::move(decoder)) {}

  const ModelSpec& spec() const override { return spec_; }
  NameMap names() const override { return names_; }
  Status visit(Binder& binder) override { return decoder_.visit(binder, "model"); }
  std::vector<KvScales> kv_scales() const override { return decoder_.kv_scales(); }
  Tensor forward(Step& step) override { return decoder_.forward(step); }

 private:
  ModelSpec spec_;
  NameMap names_;
  DecoderStack decoder_;
};

}  // namespace octavo
