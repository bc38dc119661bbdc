#include "text/tokenizer_parts.h"

#include <array>
#include <cstdio>
#include <utility>

#include "base/strings.h"

namespace octavo {
namespace {

// Ids of single bytes: <0xNN>, or of a byte-level vocabulary its one-byte tokens.
std::array<std::int32_t, 256> byte_ids(const TokenTable& pieces, const TokenTable& spelled, bool byte_level) {
  std::array<std::int32_t, 256> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    std::array<char, 8> name;
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    ids[static_cast<std::size_t>(byte)] =
        byte_level ? pieces.find(std::string_view(&raw, 1)) : spelled.find(name.data());
  }
  return ids;
}

// The vocabulary as text is looked up in it: by bytes, or by characters.
TokenTable model_pieces(const TokenizerSource& source) {
  TokenTable pieces;
  for (std::size_t id = 0; id < source.spelled.size(); ++id) {
    const std::string& spelled = source.spelled[id];
    const bool used = source.in_model[id] && !spelled.empty();
    const auto bytes = source.rules.byte_level ? bytes_of_spelling(spelled) : std::optional<std::string>(spelled);
    pieces.add(bytes.value_or(spelled), used && bytes.has_value());
  }
  return pieces;
}

std::string describe(const TokenizerSource& source) {
  std::vector<std::string> parts;
  parts.emplace_back(source.rules.byte_level ? "byte-level BPE" : "BPE over characters");
  if (source.rules.byte_fallback) parts.emplace_back("byte fallback");
  if (const std::string normalizer = source.normalizer.description(); !normalizer.empty()) parts.push_back(normalizer);
  if (source.rules.ignore_merges) parts.emplace_back("ignore_merges");
  parts.push_back(std::to_string(source.spelled.size()) + " tokens");
  return join(parts, ", ");
}

// Parts the added tokens; `spoken` gets what each token is to be decoded from.
Status split_added(const TokenizerSource& source, std::vector<AddedToken>& raw, std::vector<AddedToken>& normalized,
                   std::vector<std::string>& spoken) {
  TokenTable seen_raw, seen_normalized;
  for (AddedToken token : source.added) {
    if (token.content.size() > kMaxPieceBytes)
      return Error("the added token " + in_quotes(token.content) + " has more than " + std::to_string(kMaxPieceBytes) +
                   " bytes");
    if (token.normalized && !source.normalizer.empty()) {
      OCTAVO_TRY(token.content, source.normalizer.apply(token.content, false));
      if (token.content.empty()) continue;
      spoken[static_cast<std::size_t>(token.id)] = token.content;  // with the space mark that it takes from the text
    }
    TokenTable& seen = token.normalized ? seen_normalized : seen_raw;
    if (!seen.add(token.content, true)) {
      if (token.normalized && !source.normalizer.empty()) continue;  // two spellings of one text: the first is found
      return Error("the added token " + in_quotes(token.content) + " occurs twice");
    }
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  return {};
}

}  // namespace

Result<Tokenizer> assemble_tokenizer(TokenizerSource source) {
  const std::size_t size = source.spelled.size();
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> spoken = source.spelled;
  OCTAVO_TRY(split_added(source, raw, normalized, spoken));
  TokenTable spelled, decoded, decoded_first;
  std::vector<bool> is_byte(size), special(size);
  for (std::size_t id = 0; id < size; ++id) {
    const std::string& text = source.spelled[id];
    if (!spelled.add(text, !text.empty()))
      return Error("the token " + in_quotes(text) + " has two ids: " + std::to_string(spelled.find(text)) + " and " +
                   std::to_string(id));
    OCTAVO_TRY(const Decoder::TokenText own, source.decoder.token_text(spoken[id], false));
    decoded.add(own.text, false);
    is_byte[id] = own.is_byte;
    if (!source.decoder.first_differs()) continue;
    OCTAVO_TRY(const Decoder::TokenText first, source.decoder.token_text(spoken[id], true));
    decoded_first.add(first.text, false);
  }
  for (const AddedToken& token : source.added) special[static_cast<std::size_t>(token.id)] = token.special;
  for (const auto& ids : {source.prefix, source.suffix})
    for (const std::int32_t id : ids)
      if (id < 0 || static_cast<std::size_t>(id) >= size)
        return Error("the token id " + std::to_string(id) + " that is put around a text is not in the vocabulary");
  std::string description = describe(source);
  TokenTable pieces = model_pieces(source);
  const auto bytes = byte_ids(pieces, spelled, source.rules.byte_level);
  Bpe bpe(source.rules, std::move(pieces), source.merges, bytes);
  return Tokenizer(std::make_shared<const Tokenizer::Parts>(Tokenizer::Parts{
      std::move(spelled), std::move(decoded), std::move(decoded_first), std::move(is_byte), std::move(special),
      AddedTokens(std::move(raw)), AddedTokens(std::move(normalized)), std::move(source.normalizer),
      std::move(source.pre_tokenizer), std::move(bpe), std::move(source.decoder), std::move(source.prefix),
      std::move(source.suffix), source.bos, source.eos, std::move(description)}));
}

}  // namespace octavo
