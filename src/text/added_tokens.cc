#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace octavo {
namespace {

// Around a token the text may be broken: what is not a whole character is no space and no word.
std::optional<char32_t> character_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const std::size_t length = utf8_length(text[at]);
  std::string repaired;
  append_repaired(repaired, text.substr(at, length), false);
  if (repaired.size() != length || repaired == kReplacementCharacter) return {};
  return decode_utf8(repaired, 0);
}

std::optional<char32_t> character_before(std::string_view text, std::size_t at) {
  return at == 0 ? std::nullopt : character_at(text.substr(0, at), previous_utf8(text, at));
}

bool touches_word(std::string_view text, std::size_t begin, std::size_t end) {
  const auto before = character_before(text, begin), behind = character_at(text, end);
  return (before && is_word(*before)) || (behind && is_word(*behind));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  roots_.fill(-1);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    std::int32_t& root = roots_[static_cast<unsigned char>(content[0])];
    if (root < 0) {
      root = static_cast<std::int32_t>(nodes_.size());
      nodes_.emplace_back();
    }
    std::int32_t node = root;
    for (const char byte : std::string_view(content).substr(1)) {
      std::int32_t next = child(node, byte);
      if (next < 0) {
        next = static_cast<std::int32_t>(nodes_.size());
        nodes_[node].next.emplace_back(byte, next);
        nodes_.emplace_back();
      }
      node = next;
    }
    nodes_[node].token = static_cast<std::int32_t>(i);
  }
}

std::int32_t AddedTokens::child(std::int32_t node, char byte) const {
  for (const auto& [label, next] : nodes_[node].next)
    if (label == byte) return next;
  return -1;
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  std::int32_t node = roots_[static_cast<unsigned char>(text[at])];
  std::int32_t found = -1;
  while (node >= 0) {
    if (nodes_[node].token >= 0) found = nodes_[node].token;
    if (++at == text.size()) break;
    node = child(node, text[at]);
  }
  return found < 0 ? nullptr : &tokens_[found];
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from, bool skip_special) const {
  if (tokens_.empty()) return {};
  for (std::size_t at = from; at < text.size();) {
    const AddedToken* token = longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->content.size();
    at = end;
    if (token->special && skip_special) continue;
    if (token->single_word && touches_word(text, begin, end)) continue;
    while (token->lstrip && begin > from) {
      const auto before = character_before(text, begin);
      if (!before || !is_white_space(*before)) break;
      begin = std::max(from, previous_utf8(text, begin));
    }
    while (token->rstrip) {
      const auto behind = character_at(text, end);
      if (!behind || !is_white_space(*behind)) break;
      end += utf8_length(text[end]);
    }
    return Match{begin, end, token->id};
  }
  return {};
}

}  // namespace octavo
