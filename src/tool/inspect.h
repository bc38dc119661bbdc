// `octavo inspect`: what a checkpoint is, what octavo makes of it, and what is not supported and why.
#pragma once

#include <string>

#include "model/model.h"
#include "ops/backend.h"

namespace octavo {

struct InspectOptions {
  std::string model_path;
  LoadFormat load_format = LoadFormat::automatic;
  ConfigOverrides overrides;
  int tensor_parallel = 1;  // more: also what one of so many ranks has of it
  std::string chat_template;
  bool json = false;
};
// Weights are bound (mapped, not read), so a tensor that does not fit the config is found here too.
Status inspect(const InspectOptions& options, const BackendFactory& make_backends);

}  // namespace octavo
