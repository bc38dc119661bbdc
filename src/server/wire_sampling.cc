#include "server/wire_sampling.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/strings.h"
#include "engine/request_check.h"
#include "server/http_message.h"
#include "text/stop_strings.h"

namespace octavo {
namespace {

void read_stop(Fields& fields, SamplingParams& sampling) {
  const OrderedJson* stop = fields.find("stop");
  if (stop == nullptr) return;
  if (stop->is_string()) {
    sampling.stop = {stop->get<std::string>()};
  } else if (stop->is_array()) {
    for (const OrderedJson& entry : *stop) {
      if (!entry.is_string()) return fields.wrong_entry("stop", sampling.stop.size(), entry, "a string");
      sampling.stop.push_back(entry.get<std::string>());
    }
  } else {
    return fields.wrong_type("stop", "a string or a list of strings");
  }
  if (sampling.stop.size() > kMaxStops)
    return fields.refuse(
        "stop", "stop has " + std::to_string(sampling.stop.size()) + " entries: at most " + std::to_string(kMaxStops));
  std::size_t bytes = 0;
  for (const std::string& text : sampling.stop) {
    if (text.empty()) return fields.refuse("stop", "stop holds an empty string: it would end every answer at once");
    bytes += text.size();
  }
  if (bytes > kMaxStopBytes)
    return fields.refuse("stop", "stop has " + std::to_string(bytes) + " bytes in all its strings: at most " +
                                     std::to_string(kMaxStopBytes));
}

void read_ids(Fields& fields, const char* name, std::vector<std::int32_t>& to) {
  const OrderedJson* ids = fields.array(name);
  if (ids == nullptr) return;
  for (const OrderedJson& entry : *ids) {
    const auto id = token_id(entry);
    if (!id) return fields.wrong_entry(name, to.size(), entry, "a token id");
    to.push_back(*id);
  }
}

void read_allowed(Fields& fields, SamplingParams& sampling) {
  read_ids(fields, "allowed_token_ids", sampling.allowed_token_ids);
  if (fields.array("allowed_token_ids") != nullptr && sampling.allowed_token_ids.empty())
    fields.refuse("allowed_token_ids", "allowed_token_ids is empty: no token could be written");
}

// Each word as it stands at the beginning of a text and behind a space.
void read_bad_words(Fields& fields, const Words& words, SamplingParams& sampling) {
  const OrderedJson* list = fields.array("bad_words");
  if (list == nullptr) return;
  if (list->size() > kMaxListedTokens / 2)
    return fields.refuse("bad_words", "bad_words has " + std::to_string(list->size()) + " entries: at most " +
                                          std::to_string(kMaxListedTokens / 2));
  for (std::size_t i = 0; i < list->size(); ++i) {
    const OrderedJson& entry = (*list)[i];
    if (!entry.is_string()) return fields.wrong_entry("bad_words", i, entry, "a string");
    const std::string& word = entry.get_ref<const std::string&>();
    if (trim(word).empty()) return fields.refuse("bad_words", "bad_words holds a word of white space alone");
    for (const std::string& text : {word, " " + word.substr(word.find_first_not_of(' '))}) {
      auto ids = words.encode(text, false);
      if (!ids) return fields.refuse("bad_words", ids.error().message());
      sampling.bad_words.push_back(*std::move(ids));
    }
  }
}

void read_truncation(Fields& fields, const Words& words, GenerationSpec& spec) {
  const auto kept = fields.integer("truncate_prompt_tokens", -1, words.max_model_len);
  if (kept == 0) fields.refuse("truncate_prompt_tokens", "truncate_prompt_tokens is 0: nothing would be left");
  if (kept) spec.keep_tokens = static_cast<int>(*kept);
}

void read_logit_bias(Fields& fields, SamplingParams& sampling) {
  const OrderedJson* bias = fields.object("logit_bias");
  if (bias == nullptr) return;
  for (const auto& [key, value] : bias->items()) {
    std::int32_t id = 0;
    std::from_chars(key.data(), key.data() + key.size(), id);
    if (std::to_string(id) != key)
      return fields.refuse("logit_bias", "logit_bias has the key " + in_quotes(key) +
                                             ", which is no token id: those are written as in \"42\"");
    if (!value.is_number())
      return fields.refuse("logit_bias", "logit_bias." + key + " must be a number, but is " + shown(value));
    sampling.logit_bias.emplace_back(id, value.get<float>());
  }
}

void read_stream(Fields& fields, GenerationSpec& spec) {
  fields.store("stream", spec.stream);
  const OrderedJson* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!spec.stream) return fields.refuse("stream_options", "stream_options can only be given with stream: true");
  Fields inner(*options, "stream_options.");
  inner.store("include_usage", spec.include_usage);
  inner.store("continuous_usage_stats", spec.continuous_usage);
  spec.continuous_usage = spec.continuous_usage && spec.include_usage;
  fields.take_error(inner);
}

void read_numbers(Fields& fields, SamplingParams& sampling) {
  fields.store("temperature", sampling.temperature);
  fields.store("top_p", sampling.top_p);
  fields.store("top_k", sampling.top_k);
  fields.store("min_p", sampling.min_p);
  fields.store("presence_penalty", sampling.presence_penalty);
  fields.store("frequency_penalty", sampling.frequency_penalty);
  fields.store("repetition_penalty", sampling.repetition_penalty);
  fields.store("min_tokens", sampling.min_tokens);
  sampling.n = static_cast<int>(fields.integer("n", 1, kMaxContinuations).value_or(sampling.n));
  fields.store("ignore_eos", sampling.ignore_eos);
  fields.store("include_stop_str_in_output", sampling.include_stop);
  if (const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX)) sampling.seed = static_cast<std::uint64_t>(*seed);
}

}  // namespace

void read_common(Fields& fields, const Words& words, GenerationSpec& spec) {
  fields.store("model", spec.model);
  if (!fields.error() && !words.serves(spec.model)) {
    const ApiError unknown = words.unknown_model(spec.model);
    fields.refuse("model", unknown.message, unknown.status);
  }
  if (spec.model.empty()) spec.model = words.names.front();
  read_stream(fields, spec);
  read_numbers(fields, spec.sampling);
  read_stop(fields, spec.sampling);
  read_ids(fields, "stop_token_ids", spec.sampling.stop_token_ids);
  read_allowed(fields, spec.sampling);
  read_bad_words(fields, words, spec.sampling);
  read_truncation(fields, words, spec);
  read_logit_bias(fields, spec.sampling);
  fields.store("skip_special_tokens", spec.skip_special);
  fields.store("return_token_ids", spec.return_token_ids);
  fields.store("return_tokens_as_token_ids", spec.tokens_as_ids);
  fields.store("priority", spec.priority);
  fields.store("user", spec.user);
  fields.store("request_id", spec.id);
  if (!is_request_id(spec.id))
    fields.refuse("request_id",
                  "request_id must be at most " + std::to_string(kMaxRequestId) + " printable characters of ASCII");
  fields.store("cache_salt", spec.cache_salt);
  if (const auto top = fields.integer("prompt_logprobs", -1, 20)) {
    if (*top < 0)
      fields.refuse("prompt_logprobs", "prompt_logprobs is -1: it must be between 0 and 20");
    else if (spec.stream)
      fields.refuse("prompt_logprobs", "prompt_logprobs are not available with stream: true");
    spec.prompt_logprobs = static_cast<int>(*top);
  }
}

std::optional<int> answer_tokens(Fields& fields, const char* field, int least) {
  const auto tokens = fields.integer(field, least, INT64_MAX);
  if (!tokens) return std::nullopt;
  return static_cast<int>(std::min<std::int64_t>(*tokens, INT32_MAX));
}

void refuse_unsupported(Fields& fields) {
  if (const OrderedJson* format = fields.object("response_format")) {
    Fields inner(*format, "response_format.");
    const auto type = inner.text("type");
    if (!type) inner.refuse("type", "response_format.type is missing: \"text\"");
    fields.take_error(inner);
    if (!fields.error() && *type != "text")
      fields.refuse("response_format",
                    "response_format of type " + in_quotes(*type) + " is not supported yet: only text is");
  }
  constexpr std::array<const char*, 12> kConstraints = {"structured_outputs",
                                                        "guided_json",
                                                        "guided_regex",
                                                        "guided_choice",
                                                        "guided_grammar",
                                                        "guided_json_object",
                                                        "guided_decoding_backend",
                                                        "prompt_embeds",
                                                        "logits_processors",
                                                        "suffix",
                                                        "use_beam_search",
                                                        "structural_tag"};
  for (const char* name : kConstraints) {
    const OrderedJson* value = fields.find(name);
    const bool given = value != nullptr && !(value->is_structured() && value->empty()) &&
                       !(value->is_boolean() && !value->get<bool>()) &&
                       !(value->is_string() && value->get_ref<const std::string&>().empty());
    if (given) fields.refuse(name, std::string(name) + " is not supported yet");
  }
  if (const auto best = fields.integer("best_of"); best && *best != fields.integer("n").value_or(1))
    fields.refuse("best_of", "best_of is not supported: ask for n answers");
}

PromptSpec make_prompt(std::vector<std::int32_t> ids, const Words& words, const GenerationSpec& spec) {
  if (spec.keep_tokens) {
    const int answer = std::clamp(spec.sampling.max_tokens, 1, std::max(1, words.max_model_len - 1));
    // An answer as long as the context leaves the prompt its half: max_tokens is cut to what there is room for anyway.
    const int kept = *spec.keep_tokens > 0 ? *spec.keep_tokens
                                           : std::max({1, words.max_model_len / 2, words.max_model_len - answer});
    ids.erase(ids.begin(), ids.end() - std::min(std::ssize(ids), static_cast<std::ptrdiff_t>(kept)));
  }
  PromptSpec prompt{.ids = std::move(ids), .echo = {}};
  if (spec.echo) prompt.echo = words.tokenizer.decode(prompt.ids, {.skip_special = false});
  return prompt;
}

Result<PromptSpec> make_prompt(std::string text, bool add_special, const Words& words, const GenerationSpec& spec) {
  OCTAVO_TRY(auto ids, spec.keep_tokens
                           ? words.tokenizer.encode(text, {.parse_special = true, .add_special = add_special})
                           : words.encode(text, add_special));
  const std::size_t whole = ids.size();
  PromptSpec prompt = make_prompt(std::move(ids), words, spec);
  if (spec.echo && prompt.ids.size() == whole) prompt.echo = std::move(text);
  return prompt;
}

std::optional<ApiError> engine_refusal(const GenerationSpec& spec, const Words& words, const char* prompt) {
  for (const PromptSpec& one : spec.prompts) {
    Request request;
    request.prompt = one.ids;
    request.sampling = spec.sampling;
    const Status checked = check_request(request, {.vocab = words.vocab, .max_model_len = words.max_model_len});
    if (checked) continue;
    const std::string& message = checked.error().message();
    return ApiError{.message = message, .param = blamed_field(message, prompt)};
  }
  return std::nullopt;
}

std::string blamed_field(const std::string& message, const std::string& prompt) {
  constexpr std::array<std::string_view, 13> kNames = {
      "temperature", "top_p",      "min_p",      "top_k", "presence_penalty", "frequency_penalty", "repetition_penalty",
      "max_tokens",  "min_tokens", "logit_bias", "n",     "logprobs",         "prompt_logprobs"};
  for (const char* list : {"stop_token_ids", "allowed_token_ids", "bad_words"})
    if (message.find(list) != std::string::npos) return list;
  const std::string_view first = std::string_view(message).substr(0, message.find(' '));
  for (const std::string_view name : kNames)
    if (first == name) return std::string(name);
  return prompt;
}

}  // namespace octavo
