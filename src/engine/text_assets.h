// TextAssets: the words of a checkpoint: its tokenizer and chat template, from tokenizer.json and tokenizer_config.json
// (or chat_template.jinja), or from GGUF metadata. Needs no weights.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace octavo {

Result<Tokenizer> load_tokenizer(const Checkpoint& checkpoint);

struct TemplateAsset {
  ChatTemplate chat_template;
  OrderedJson special;  // bos_token, eos_token, ... as the template's variables
  std::string source;   // "tokenizer_config.json", "tokenizer.chat_template (GGUF)", "--chat-template FILE"
};
// override_path: --chat-template (a file or the template itself), or empty. An error when there is no template, naming
// where it was looked for.
Result<TemplateAsset> load_chat_template(const Checkpoint& checkpoint, const std::string& override_path);

}  // namespace octavo
