#include "engine/text_assets.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/file.h"

namespace octavo {
namespace {

// The variables by which templates know special tokens; Hugging Face's names.
constexpr std::array kSpecialNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};

Result<std::optional<Json>> read_json(const Checkpoint& checkpoint, const std::string& file_name) {
  OCTAVO_TRY(const auto text, checkpoint.read_text(file_name));
  if (!text) return std::optional<Json>();
  OCTAVO_TRY(Json json, parse_json(*text, file_name));
  return std::optional<Json>(std::move(json));
}

Result<std::optional<int>> find_id(const GgufFile& file, const std::string& key) {
  OCTAVO_TRY(const auto id, file.find_int(key));
  if (!id) return std::optional<int>();
  if (*id < 0 || *id > std::numeric_limits<std::int32_t>::max())
    return Error(key + " is " + std::to_string(*id) + ", which is no token id");
  return std::optional<int>(static_cast<int>(*id));
}

Status read_special_ids(const GgufFile& file, Vocabulary& vocabulary) {
  OCTAVO_TRY(vocabulary.bos, find_id(file, "tokenizer.ggml.bos_token_id"));
  OCTAVO_TRY(vocabulary.eos, find_id(file, "tokenizer.ggml.eos_token_id"));
  OCTAVO_TRY(vocabulary.unk, find_id(file, "tokenizer.ggml.unknown_token_id"));
  OCTAVO_TRY(vocabulary.add_bos, file.find_bool("tokenizer.ggml.add_bos_token"));
  OCTAVO_TRY(vocabulary.add_eos, file.find_bool("tokenizer.ggml.add_eos_token"));
  OCTAVO_TRY(vocabulary.add_space_prefix, file.find_bool("tokenizer.ggml.add_space_prefix"));
  return {};
}

Result<Tokenizer> gguf_tokenizer(const Checkpoint& checkpoint, const GgufFile& file) {
  Vocabulary vocabulary;
  OCTAVO_TRY(const auto model, file.find_string("tokenizer.ggml.model"));
  const std::vector<std::string>* tokens = file.find_strings("tokenizer.ggml.tokens");
  if (!model || !tokens)
    return Error(checkpoint.path() + " holds no tokenizer: the key " +
                     (model ? "tokenizer.ggml.tokens" : "tokenizer.ggml.model") + " is missing",
                 ErrorKind::not_found);
  vocabulary.model = *model;
  vocabulary.tokens = *tokens;
  OCTAVO_TRY(const auto pre, file.find_string("tokenizer.ggml.pre"));
  vocabulary.pre = pre.value_or("");
  if (const auto* types = file.find_ints("tokenizer.ggml.token_type"))
    for (const std::int64_t type : *types)
      vocabulary.types.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(type, 0, 100)));
  if (const auto* scores = file.find_numbers("tokenizer.ggml.scores"))
    for (const double score : *scores) vocabulary.scores.push_back(static_cast<float>(score));
  if (const auto* merges = file.find_strings("tokenizer.ggml.merges")) vocabulary.merges = *merges;
  OCTAVO_TRY(read_special_ids(file, vocabulary));
  return Tokenizer::from_vocabulary(vocabulary).in(checkpoint.path());
}

// A special token is written as its text or as {"content": text, ...}.
std::optional<std::string> token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const Json* content = find_member(value, "content");
  if (content && content->is_string()) return content->get<std::string>();
  return std::nullopt;
}

void add_special(const Json& config, OrderedJson& special) {
  for (const char* name : kSpecialNames) {
    const Json* value = find_member(config, name);
    if (!value || special.contains(name)) continue;
    if (const auto text = token_text(*value)) special[name] = *text;
  }
}

Result<OrderedJson> directory_special(const Checkpoint& checkpoint) {
  OrderedJson special = OrderedJson::object();
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    OCTAVO_TRY(const auto config, read_json(checkpoint, file));
    if (config) add_special(*config, special);
  }
  return special;
}

Result<OrderedJson> gguf_special(const GgufFile& file) {
  OrderedJson special = OrderedJson::object();
  const std::vector<std::string>* tokens = file.find_strings("tokenizer.ggml.tokens");
  if (!tokens) return special;
  constexpr std::pair<const char*, const char*> kKeys[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                           {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                           {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                           {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kKeys) {
    OCTAVO_TRY(const auto id, find_id(file, key));
    if (id && static_cast<std::size_t>(*id) < tokens->size()) special[name] = (*tokens)[static_cast<std::size_t>(*id)];
  }
  return special;
}

struct TemplateText {
  std::string text;
  std::string source;
};

// The value of "chat_template": a text, or a list of {name, template} of which "default" is meant.
Result<std::optional<std::string>> pick_template(const Json& config, const std::string& file) {
  const Json* value = find_member(config, "chat_template");
  if (!value) return std::optional<std::string>();
  if (value->is_string()) return std::optional<std::string>(value->get<std::string>());
  if (!value->is_array()) return Error(file + ": chat_template is neither a text nor a list of named texts");
  std::string names;
  for (const Json& entry : *value) {
    OCTAVO_TRY(const std::string name, get_string(entry, "name").in(file + ": chat_template"));
    OCTAVO_TRY(std::string text, get_string(entry, "template").in(file + ": chat_template"));
    if (name == "default") return std::optional<std::string>(std::move(text));
    names += (names.empty() ? "" : ", ") + name;
  }
  return Error(file + ": none of its chat templates (" + names + ") is named default; give one with --chat-template",
               ErrorKind::not_found);
}

// chat_template.jinja goes before the key in tokenizer_config.json, as in Hugging Face's loader.
Result<TemplateText> directory_template(const Checkpoint& checkpoint) {
  OCTAVO_TRY(auto jinja, checkpoint.read_text("chat_template.jinja"));
  if (jinja) return TemplateText{*std::move(jinja), "chat_template.jinja"};
  for (const char* file : {"tokenizer_config.json", "chat_template.json"}) {
    OCTAVO_TRY(const auto config, read_json(checkpoint, file));
    if (!config) continue;
    OCTAVO_TRY(auto text, pick_template(*config, file));
    if (text) return TemplateText{*std::move(text), file};
  }
  return Error(
      checkpoint.path() +
          " has no chat template: neither chat_template.jinja nor the key chat_template in tokenizer_config.json "
          "or chat_template.json is there; give one with --chat-template",
      ErrorKind::not_found);
}

Result<TemplateText> gguf_template(const Checkpoint& checkpoint, const GgufFile& file) {
  OCTAVO_TRY(auto text, file.find_string("tokenizer.chat_template"));
  if (text) return TemplateText{*std::move(text), "tokenizer.chat_template (GGUF)"};
  return Error(checkpoint.path() +
                   " has no chat template: the key tokenizer.chat_template is missing; give one with "
                   "--chat-template",
               ErrorKind::not_found);
}

Result<TemplateText> find_template(const Checkpoint& checkpoint, const std::string& override_path) {
  // As vLLM: a file, or the template itself.
  if (override_path.find("{{") != std::string::npos || override_path.find("{%") != std::string::npos)
    return TemplateText{override_path, "--chat-template"};
  if (!override_path.empty()) {
    OCTAVO_TRY(std::string text, read_file(override_path).in("--chat-template"));
    return TemplateText{std::move(text), "--chat-template " + override_path};
  }
  return checkpoint.gguf() ? gguf_template(checkpoint, *checkpoint.gguf()) : directory_template(checkpoint);
}

}  // namespace

Result<Tokenizer> load_tokenizer(const Checkpoint& checkpoint) {
  if (checkpoint.gguf()) return gguf_tokenizer(checkpoint, *checkpoint.gguf());
  OCTAVO_TRY(const auto json, read_json(checkpoint, "tokenizer.json"));
  if (!json)
    return Error(
        checkpoint.path() + " has no tokenizer.json, and octavo reads tokenizers from that file or from GGUF metadata",
        ErrorKind::not_found);
  OCTAVO_TRY(const auto config, read_json(checkpoint, "tokenizer_config.json"));
  return Tokenizer::from_json(*json, config ? &*config : nullptr);
}

Result<TemplateAsset> load_chat_template(const Checkpoint& checkpoint, const std::string& override_path) {
  OCTAVO_TRY(TemplateText text, find_template(checkpoint, override_path));
  OCTAVO_TRY(ChatTemplate chat_template, ChatTemplate::parse(std::move(text.text)).in(text.source));
  OCTAVO_TRY(OrderedJson special, checkpoint.gguf() ? gguf_special(*checkpoint.gguf()) : directory_special(checkpoint));
  return TemplateAsset{std::move(chat_template), std::move(special), std::move(text.source)};
}

}  // namespace octavo
