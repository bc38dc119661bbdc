// A completion request's JSON -> a GenerationSpec. The prompt is a text, token ids, or a list of either.
#pragma once

#include "server/fields.h"
#include "server/generation_spec.h"
#include "server/words.h"

namespace octavo {

constexpr std::size_t kMaxPrompts = 4096;

SpecResult read_completion_request(const OrderedJson& body, const Words& words);

}  // namespace octavo
