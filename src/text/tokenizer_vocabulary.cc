// Making a tokenizer of a plain vocabulary, as GGUF files carry it.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace octavo {
namespace {

enum TokenType : std::int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

Status check_vocabulary(const Vocabulary& v, bool by_score) {
  if (v.tokens.empty()) return Error("the vocabulary has no tokens");
  if (v.tokens.size() > static_cast<std::size_t>(kMaxVocabulary))
    return Error("the vocabulary has " + std::to_string(v.tokens.size()) + " tokens; at most " +
                 std::to_string(kMaxVocabulary) + " are possible");
  if (!v.types.empty() && v.types.size() != v.tokens.size())
    return Error("the vocabulary has " + std::to_string(v.tokens.size()) + " tokens but " +
                 std::to_string(v.types.size()) + " token types");
  if (by_score && v.scores.size() != v.tokens.size())
    return Error("the vocabulary has " + std::to_string(v.tokens.size()) + " tokens but " +
                 std::to_string(v.scores.size()) + " scores");
  const auto is_long = [](const std::string& token) { return token.size() > kMaxPieceBytes; };
  if (const auto found = std::find_if(v.tokens.begin(), v.tokens.end(), is_long); by_score && found != v.tokens.end())
    return Error("the token " + in_quotes(*found) + " has more than " + std::to_string(kMaxPieceBytes) + " bytes");
  if (by_score && !std::all_of(v.scores.begin(), v.scores.end(), [](float s) { return !std::isnan(s); }))
    return Error("the vocabulary has a score that is not a number");
  for (const auto& [name, id] : {std::pair("bos", v.bos), std::pair("eos", v.eos), std::pair("unknown", v.unk)})
    if (id && (*id < 0 || static_cast<std::size_t>(*id) >= v.tokens.size()))
      return Error("the " + std::string(name) + " token id " + std::to_string(*id) + " is not in the vocabulary of " +
                   std::to_string(v.tokens.size()) + " tokens");
  return {};
}

Result<std::vector<Merge>> merges_by_rank(const Vocabulary& v, const TokenTable& tokens) {
  if (v.merges.empty()) return Error("the vocabulary has no merges");
  std::vector<Merge> merges;
  merges.reserve(v.merges.size());
  for (const std::string& text : v.merges) {
    const std::size_t space = text.find(' ', 1);  // a token may be a space only where it comes first
    const std::string left = text.substr(0, space);
    const std::string right = space == std::string::npos ? std::string() : text.substr(space + 1);
    const Merge merge{tokens.find(left), tokens.find(right), tokens.find(left + right),
                      static_cast<std::uint32_t>(merges.size())};
    if (right.empty() || merge.left < 0 || merge.right < 0 || merge.merged < 0)
      return Error("the merge " + in_quotes(text) + " does not join two tokens of the vocabulary to a third");
    merges.push_back(merge);
  }
  return merges;
}

// SentencePiece joins the neighbours whose union has the best score: the same as a merge for every way to cut a token
// in two tokens, ranked by the score of the whole. Equal scores have equal ranks, so that the leftmost goes first.
std::vector<Merge> merges_by_score(const Vocabulary& v, const TokenTable& tokens, const std::vector<bool>& in_model) {
  std::vector<std::int32_t> order;
  for (std::size_t id = 0; id < v.tokens.size(); ++id)
    if (in_model[id] && find_invalid_utf8(v.tokens[id]) == std::string_view::npos)
      order.push_back(static_cast<std::int32_t>(id));
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return v.scores[a] > v.scores[b]; });
  std::vector<Merge> merges;
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t id = order[i];
    if (i > 0 && v.scores[id] != v.scores[order[i - 1]]) ++rank;
    const std::string_view token = v.tokens[id];
    for (std::size_t cut = 0; (cut += utf8_length(token[cut])) < token.size();) {
      const int left = tokens.find(token.substr(0, cut)), right = tokens.find(token.substr(cut));
      if (left >= 0 && right >= 0 && in_model[left] && in_model[right]) merges.push_back({left, right, id, rank});
    }
  }
  return merges;
}

Result<TokenTable> index_tokens(const Vocabulary& v) {
  TokenTable tokens;
  for (const std::string& token : v.tokens)
    if (!tokens.add(token, !token.empty()))
      return Error("the token " + in_quotes(token) + " occurs twice in the vocabulary");
  return tokens;
}

// Byte-level BPE, its pre-tokenizer by name.
Status use_named(const Vocabulary& v, TokenizerSource& source, bool& add_bos) {
  OCTAVO_TRY(const NamedPreTokenizer named, find_pre_tokenizer(v.pre));
  OCTAVO_TRY(source.pre_tokenizer, PreTokenizer::from_regexes(named.regexes));
  if (named.form) source.normalizer.add(TextNormalizer::Form{*named.form});
  source.rules.byte_level = true;
  source.rules.ignore_merges = named.ignore_merges;
  source.decoder = Decoder::byte_level();
  add_bos = named.add_bos;
  return {};
}

// Pieces with "▁" for a space, and byte tokens.
void use_spaced_pieces(bool space_prefix, TokenizerSource& source) {
  if (space_prefix) source.normalizer.add(TextNormalizer::Prepend{std::string(kSpaceMark)});
  source.normalizer.add(TextNormalizer::Replace{" ", std::nullopt, std::string(kSpaceMark)});
  source.rules.byte_fallback = true;
  source.rules.fuse_unknown = true;
  source.decoder = Decoder::spaced_pieces(space_prefix);
}

void sort_by_type(const Vocabulary& v, TokenizerSource& source) {
  source.in_model.assign(v.tokens.size(), true);
  for (std::size_t id = 0; id < v.types.size(); ++id) {
    const std::int32_t type = v.types[id];
    source.in_model[id] = type != kControl && type != kUnknown && type != kByte;
    if ((type != kControl && type != kUserDefined && type != kUnknown) || v.tokens[id].empty()) continue;
    AddedToken token;
    token.id = static_cast<std::int32_t>(id);
    token.content = v.tokens[id];
    token.special = type != kUserDefined;
    source.added.push_back(std::move(token));
  }
}

std::optional<std::int32_t> unknown_token(const Vocabulary& v) {
  if (v.unk) return *v.unk;
  const auto found = std::find(v.types.begin(), v.types.end(), kUnknown);
  return found == v.types.end() ? std::nullopt : std::optional<std::int32_t>(found - v.types.begin());
}

Result<Tokenizer> read_vocabulary(const Vocabulary& v) {
  OCTAVO_TRY(const VocabularyKind kind, find_vocabulary_kind(v.model));
  const bool by_score = kind == VocabularyKind::scored_characters;
  const bool by_bytes = kind == VocabularyKind::merged_bytes;
  OCTAVO_TRY(check_vocabulary(v, by_score));
  OCTAVO_TRY(const TokenTable tokens, index_tokens(v));
  TokenizerSource source;
  source.spelled = v.tokens;
  sort_by_type(v, source);
  bool add_bos = !by_bytes;
  if (!by_bytes)
    use_spaced_pieces(v.add_space_prefix.value_or(by_score), source);
  else
    OCTAVO_TRY(use_named(v, source, add_bos));
  if (by_score) {
    source.merges = merges_by_score(v, tokens, source.in_model);
  } else {
    OCTAVO_TRY(source.merges, merges_by_rank(v, tokens));
  }
  if (source.rules.byte_fallback) source.rules.unknown = unknown_token(v);
  source.bos = v.bos;
  source.eos = v.eos;
  if (v.add_bos.value_or(add_bos) && v.bos) source.prefix.push_back(*v.bos);
  if (v.add_eos.value_or(false) && v.eos) source.suffix.push_back(*v.eos);
  return assemble_tokenizer(std::move(source));
}

}  // namespace

Result<Tokenizer> Tokenizer::from_vocabulary(const Vocabulary& vocabulary) {
  return read_vocabulary(vocabulary).in("tokenizer");
}

}  // namespace octavo
