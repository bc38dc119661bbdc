// Reading tokenizer.json, the format of Hugging Face's `tokenizers`. Every field is checked before it is used.
#include <algorithm>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/shown.h"
#include "base/strings.h"
#include "text/post_processor.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer_parts.h"

namespace octavo {
namespace {

Result<int> read_id(const Json& value, const std::string& token, int limit) {
  if (!value.is_number_integer())
    return Error("the id of token " + in_quotes(token) + " is " + shown(value) + ", not a whole number");
  const std::int64_t id = value.is_number_unsigned() && value.get<std::uint64_t>() > kMaxVocabulary
                              ? std::int64_t{kMaxVocabulary}
                              : value.get<std::int64_t>();
  if (id < 0 || id >= limit)
    return Error("the id " + to_text(value) + " of token " + in_quotes(token) + " is outside 0 to " +
                 std::to_string(limit - 1) + ", which so many tokens may have");
  return static_cast<int>(id);
}

// Ids are below this: those of all tokens, and some that are free.
int id_limit(const Json& json, const Json& model) {
  std::size_t count = kMaxFreeIds;
  for (const Json* tokens : {find_member(model, "vocab"), find_member(json, "added_tokens")})
    if (tokens != nullptr) count += tokens->size();
  return static_cast<int>(std::min<std::size_t>(count, kMaxVocabulary));
}

Status place(TokenizerSource& source, int id, const std::string& token, bool in_model) {
  const auto i = static_cast<std::size_t>(id);
  if (i >= source.spelled.size()) {
    source.spelled.resize(i + 1);
    source.in_model.resize(i + 1);
  }
  if (!source.spelled[i].empty() && source.spelled[i] != token)
    return Error("the id " + std::to_string(id) + " belongs to two tokens, " + in_quotes(source.spelled[i]) + " and " +
                 in_quotes(token));
  source.spelled[i] = token;
  source.in_model[i] = source.in_model[i] || in_model;
  return {};
}

Status read_vocabulary(const Json& model, int limit, TokenizerSource& source) {
  const Json* vocabulary = find_member(model, "vocab");
  if (vocabulary == nullptr || !vocabulary->is_object()) return Error("model.vocab is not an object of tokens and ids");
  for (const auto& [token, value] : vocabulary->items()) {
    OCTAVO_TRY(const int id, read_id(value, token, limit));
    OCTAVO_TRY(place(source, id, token, true));
  }
  return {};
}

// "a b" or ["a", "b"].
Result<std::pair<std::string, std::string>> read_merge(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  return Error("the merge " + shown(merge) + " is not a pair of tokens");
}

Status read_merges(const Json& model, const TokenTable& tokens, TokenizerSource& source) {
  const Json* merges = find_member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return Error("model.merges is not a list");
  source.merges.reserve(merges->size());
  for (const Json& json : *merges) {
    OCTAVO_TRY(const auto pair, read_merge(json));
    const Merge merge{tokens.find(pair.first), tokens.find(pair.second), tokens.find(pair.first + pair.second),
                      static_cast<std::uint32_t>(source.merges.size())};
    if (merge.left < 0 || merge.right < 0 || merge.merged < 0)
      return Error("the merge of " + in_quotes(pair.first) + " and " + in_quotes(pair.second) +
                   " names a token that is not in model.vocab");
    source.merges.push_back(merge);
  }
  return {};
}

Status read_model(const Json& model, int limit, TokenizerSource& source) {
  OCTAVO_TRY(const auto type, find_string(model, "type"));
  if (type.value_or("BPE") != "BPE")
    return Error("the tokenizer model " + in_quotes(*type) + " is not supported (BPE is)", ErrorKind::unsupported);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    OCTAVO_TRY(const auto affix, find_string(model, key));
    if (affix && !affix->empty())
      return Error("model." + std::string(key) + " " + in_quotes(*affix) + " is not supported", ErrorKind::unsupported);
  }
  OCTAVO_TRY(const auto dropout, find_number(model, "dropout"));
  if (dropout.value_or(0) != 0) return Error("model.dropout is for training; set it to null", ErrorKind::unsupported);
  OCTAVO_TRY(const auto ignore_merges, find_bool(model, "ignore_merges"));
  OCTAVO_TRY(const auto byte_fallback, find_bool(model, "byte_fallback"));
  OCTAVO_TRY(const auto fuse_unknown, find_bool(model, "fuse_unk"));
  OCTAVO_TRY(const auto unknown, find_string(model, "unk_token"));
  OCTAVO_TRY(read_vocabulary(model, limit, source));
  TokenTable tokens;
  for (const std::string& token : source.spelled)
    if (!tokens.add(token, !token.empty())) return Error("the token " + in_quotes(token) + " has two ids");
  source.rules.ignore_merges = ignore_merges.value_or(false);
  source.rules.byte_fallback = byte_fallback.value_or(false);
  source.rules.fuse_unknown = fuse_unknown.value_or(false);
  if (unknown) {
    source.rules.unknown = tokens.find(*unknown);
    if (*source.rules.unknown < 0) return Error("model.unk_token " + in_quotes(*unknown) + " is not in model.vocab");
  }
  return read_merges(model, tokens, source);
}

Result<AddedToken> read_added_token(const Json& json, int limit) {
  AddedToken token;
  OCTAVO_TRY(token.content, get_string(json, "content"));
  const Json* id = find_member(json, "id");
  if (id == nullptr) return Error("the added token " + in_quotes(token.content) + " has no id");
  OCTAVO_TRY(token.id, read_id(*id, token.content, limit));
  OCTAVO_TRY(const auto special, find_bool(json, "special"));
  OCTAVO_TRY(const auto normalized, find_bool(json, "normalized"));
  OCTAVO_TRY(const auto single_word, find_bool(json, "single_word"));
  OCTAVO_TRY(const auto lstrip, find_bool(json, "lstrip"));
  OCTAVO_TRY(const auto rstrip, find_bool(json, "rstrip"));
  token.special = special.value_or(false);
  token.normalized = normalized.value_or(!token.special);
  token.single_word = single_word.value_or(false);
  token.lstrip = lstrip.value_or(false);
  token.rstrip = rstrip.value_or(false);
  return token;
}

Status read_added_tokens(const Json& json, int limit, TokenizerSource& source) {
  const Json* added = find_member(json, "added_tokens");
  if (added == nullptr) return {};
  if (!added->is_array()) return Error("added_tokens is not a list");
  for (const Json& entry : *added) {
    OCTAVO_TRY(AddedToken token, read_added_token(entry, limit).in("added_tokens"));
    if (token.content.empty()) continue;
    OCTAVO_TRY(place(source, token.id, token.content, false));
    source.added.push_back(std::move(token));
  }
  return {};
}

// tokenizer_config.json writes a token as its text or as an object with a "content".
std::optional<int> configured_token(const Json* config, const char* key, const std::vector<std::string>& spelled) {
  const Json* value = config == nullptr ? nullptr : find_member(*config, key);
  if (value != nullptr && value->is_object()) value = find_member(*value, "content");
  if (value == nullptr || !value->is_string() || value->get_ref<const std::string&>().empty()) return {};
  const auto found = std::find(spelled.begin(), spelled.end(), value->get_ref<const std::string&>());
  return found == spelled.end() ? std::nullopt : std::optional<int>(static_cast<int>(found - spelled.begin()));
}

// Checkpoints of many makers have such a class, and a tokenizer.json that says nothing or something else.
Status apply_class(const Json* config, TokenizerSource& source) {
  if (config == nullptr) return {};
  OCTAVO_TRY(const auto name, find_string(*config, "tokenizer_class"));
  if (!name || !config_says_what_is_around(*name)) return {};
  OCTAVO_TRY(const auto add_bos, find_bool(*config, "add_bos_token"));
  OCTAVO_TRY(const auto add_eos, find_bool(*config, "add_eos_token"));
  source.prefix.clear();
  source.suffix.clear();
  if (add_bos.value_or(true) && source.bos) source.prefix.push_back(*source.bos);
  if (add_eos.value_or(false) && source.eos) source.suffix.push_back(*source.eos);
  return {};
}

Result<Tokenizer> read_tokenizer(const Json& json, const Json* config) {
  const Json* model = find_member(json, "model");
  if (model == nullptr || !model->is_object()) return Error("there is no model object");
  TokenizerSource source;
  OCTAVO_TRY(source.normalizer, TextNormalizer::from_json(find_member(json, "normalizer")));
  OCTAVO_TRY(source.pre_tokenizer, PreTokenizer::from_json(find_member(json, "pre_tokenizer")));
  OCTAVO_TRY(source.decoder, Decoder::from_json(find_member(json, "decoder")));
  const int limit = id_limit(json, *model);
  OCTAVO_TRY(read_model(*model, limit, source));
  OCTAVO_TRY(read_added_tokens(json, limit, source));
  OCTAVO_TRY(PostProcessor around, PostProcessor::from_json(find_member(json, "post_processor")));
  source.rules.byte_level = source.pre_tokenizer.byte_level();
  source.prefix = std::move(around.prefix);
  source.suffix = std::move(around.suffix);
  source.bos = configured_token(config, "bos_token", source.spelled);
  source.eos = configured_token(config, "eos_token", source.spelled);
  OCTAVO_TRY(apply_class(config, source).in("tokenizer_config.json"));
  return assemble_tokenizer(std::move(source));
}

}  // namespace

Result<Tokenizer> Tokenizer::from_json(const Json& tokenizer_json, const Json* tokenizer_config) {
  return read_tokenizer(tokenizer_json, tokenizer_config).in("tokenizer.json");
}

}  // namespace octavo
