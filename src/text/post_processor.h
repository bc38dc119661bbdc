// What add_special_tokens puts around a text: the `post_processor` of tokenizer.json, as far as it concerns one text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/result.h"

namespace octavo {

struct PostProcessor {
  std::vector<std::int32_t> prefix, suffix;

  // null: nothing. The ids are not yet checked against a vocabulary.
  static Result<PostProcessor> from_json(const nlohmann::json* post_processor);
};

}  // namespace octavo
