// Words: the served model's text side: names, tokenizer, chat template, defaults; and how texts become prompts. Const
// and used from many threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/request.h"
#include "engine/text_assets.h"
#include "server/errors.h"
#include "server/tool_history.h"
#include "server/tool_parsers/answer_formats.h"
#include "text/tokenizer.h"

namespace octavo {

struct Words {
  std::vector<std::string> names;  // --served-model-name; answers say the one that the client used
  std::string path;
  Tokenizer tokenizer;
  std::optional<TemplateAsset> chat_template = {};
  std::string no_template = {};  // why there is none
  SamplingParams defaults = {};  // from generation_config.json
  int vocab = 0;
  int max_model_len = 0;
  std::size_t longest_token = 1;  // bytes
  bool trust_request_template = false;
  AnswerFormats formats = {};  // of the model's answers
  ToolHistory history = {};    // how the template wants past calls
  bool special_marks = false;  // the tokenizer counts marks of the formats among its special tokens

  bool serves(std::string_view name) const;
  ApiError unknown_model(std::string_view name) const;

  // Refuses a text that cannot fit, however well it is tokenized, before anything is done with it.
  Result<std::vector<std::int32_t>> encode(std::string_view text, bool add_special) const;
};

std::size_t longest_token_bytes(const Tokenizer& tokenizer);

// The sampling that a checkpoint's generation_config.json recommends.
SamplingParams recommended_sampling(const Json& generation_config);

// "This model's maximum context length is N tokens, but the prompt has [at least ]M tokens. ..."
std::string too_long(int max_model_len, std::size_t tokens, bool at_least);

}  // namespace octavo
