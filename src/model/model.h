// Model: visit(binder) lists every weight once; forward(step) says which arithmetic in which order. Nothing else.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/binder.h"
#include "kv/scales.h"
#include "model/spec.h"
#include "model/step.h"

namespace octavo {

class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelSpec& spec() const = 0;
  // How this family's container spells the names (safetensors or GGUF, as the checkpoint was).
  virtual NameMap names() const = 0;
  // Binds all weights. Tensors look into buffers that the binder hands to the caller, who keeps them as long as the
  // model.
  virtual Status visit(Binder& binder) = 0;
  // KV scales per layer as the checkpoint gave them; valid after visit.
  virtual std::vector<KvScales> kv_scales() const = 0;
  // Logits f32 [sampled, vocab], in the step's arena.
  virtual Tensor forward(Step& step) = 0;
};

// Changes to the config before it is read: --hf-overrides (merged key by key) and --rope-scaling.
struct ConfigOverrides {
  Json hf_overrides = Json::object();
  Json rope_scaling;  // null: none
};

// The model of this checkpoint, read from its config and without weights. An architecture that is not known is refused
// with the list of those that are; so is a config whose values octavo does not support, by key.
Result<std::unique_ptr<Model>> make_model(const Checkpoint& checkpoint, const ConfigOverrides& overrides,
                                          RankOf rank = {});

std::vector<std::string> supported_architectures();

}  // namespace octavo
