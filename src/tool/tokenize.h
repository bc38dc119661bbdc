// `octavo tokenize` and `octavo template`: the words of a checkpoint for scripts. They need no weights.
#pragma once

#include <string>

#include "base/result.h"

namespace octavo {

struct TokenizeOptions {
  std::string model_path;
  bool decode = false;  // ids to text
  bool plain = false;   // special tokens in the text are plain text
  bool add_special = false;
  bool jsonl = false;
};
Status tokenize(const TokenizeOptions& options);

struct TemplateOptions {
  std::string model_path;
  std::string chat_template;  // --chat-template, or empty
  bool jsonl = false;
};
Status render_template(const TemplateOptions& options);

}  // namespace octavo
