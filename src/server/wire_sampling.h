// The fields that chat and completions have in common, read into a GenerationSpec.
#pragma once

#include <optional>
#include <string>

#include "server/fields.h"
#include "server/generation_spec.h"
#include "server/words.h"

namespace octavo {

constexpr std::size_t kMaxStops = 64;

// Model, stream, sampling. spec.sampling already holds the defaults.
void read_common(Fields& fields, const Words& words, GenerationSpec& spec);

// How long an answer may be; of more than any context holds there is no difference to tell.
std::optional<int> answer_tokens(Fields& fields, const char* field, int least);

// Constraints and whatever else changes the answer and is not there yet: refused by name, never ignored.
void refuse_unsupported(Fields& fields);

// A prompt of a text, cut to what spec.keep_tokens asks for; and of ids. Where it was cut, `echo` is what is left.
// spec.sampling.max_tokens must be known.
Result<PromptSpec> make_prompt(std::string text, bool add_special, const Words& words, const GenerationSpec& spec);
PromptSpec make_prompt(std::vector<std::int32_t> ids, const Words& words, const GenerationSpec& spec);

// What the engine will say against the request, if anything; `prompt` is the field that prompts come from.
std::optional<ApiError> engine_refusal(const GenerationSpec& spec, const Words& words, const char* prompt);

// The field that an engine's refusal of a request speaks of; `prompt` when it is none of the sampling's.
std::string blamed_field(const std::string& message, const std::string& prompt);

}  // namespace octavo
