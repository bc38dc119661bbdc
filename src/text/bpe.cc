#include "text/bpe.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"
#include "text/unicode.h"

namespace octavo {
namespace {

constexpr std::size_t kShort = 32;           // symbols merged in place
constexpr std::size_t kCacheEntries = 4096;  // 256 KiB
constexpr std::size_t kCachedBytes = 19, kCachedIds = 9;
constexpr std::int32_t kCachedCharacters = 0x10000;

}  // namespace

struct Bpe::Scratch::Cached {
  std::uint64_t hash = 0;
  std::uint8_t size = 0;  // of the text; 0: empty entry
  std::uint8_t num_ids = 0;
  char text[kCachedBytes + 1];
  std::int32_t ids[kCachedIds];

  bool holds(std::string_view source, std::uint64_t source_hash) const {
    return hash == source_hash && size == source.size() && std::memcmp(text, source.data(), size) == 0;
  }
};

Bpe::Scratch::Scratch(bool with_cache) : cache_(with_cache ? kCacheEntries : 0) {}
Bpe::Scratch::~Scratch() = default;

Bpe::Bpe(const BpeRules& rules, TokenTable pieces, const std::vector<Merge>& merges,
         const std::array<std::int32_t, 256>& bytes)
    : rules_(rules), pieces_(std::move(pieces)), merges_(merges), sieve_(merges.size()), bytes_(bytes) {
  if (!rules_.byte_level) {
    characters_.assign(kCachedCharacters, -1);
    std::string text;
    for (char32_t c = 0; c < static_cast<char32_t>(kCachedCharacters); ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      text.clear();
      append_utf8(text, c);
      characters_[c] = pieces_.find(text);
    }
  }
  collect_sieve(merges);
}

// A merged token is its left and its right part side by side, so only the pair at the seam is new with each merge.
void Bpe::collect_sieve(const std::vector<Merge>& merges) {
  std::vector<std::int32_t> last, first;
  // The symbol at one end of a token; byte tokens and the unknown token are symbols themselves, whatever their text.
  const auto ends = [&](std::int32_t token, bool front, std::vector<std::int32_t>& out) {
    out.assign(1, token);
    const std::string_view text = pieces_.text(token);
    if (text.empty()) return;
    if (rules_.byte_level) {
      out.push_back(bytes_[static_cast<unsigned char>(front ? text.front() : text.back())]);
      return;
    }
    if (find_invalid_utf8(text) != std::string_view::npos) return;  // no character of a text begins or ends it
    const std::size_t at = front ? 0 : previous_utf8(text, text.size());
    const std::int32_t id = character_id(text.substr(at, utf8_length(text[at])));
    if (id >= 0) out.push_back(id);
  };
  for (const Merge& merge : merges) {
    ends(merge.left, false, last);
    ends(merge.right, true, first);
    for (const std::int32_t left : last)
      for (const std::int32_t right : first) sieve_.add(left, right);
  }
}

std::int32_t Bpe::character_id(std::string_view character) const {
  if (character.size() < 4) return characters_[decode_utf8(character, 0)];
  return pieces_.find(character);
}

void Bpe::encode(std::string_view valid, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (!rules_.byte_level) {
    if (rules_.ignore_merges) {
      if (const int whole = pieces_.find(valid); whole >= 0) return ids.push_back(whole);
    }
    return encode_characters(valid, scratch, ids);
  }
  merge_cached(valid, scratch, ids);
}

void Bpe::encode_bytes(std::string_view bytes, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  scratch.symbols_.clear();
  add_bytes(bytes, scratch.symbols_);
  merge_symbols(scratch, ids);
}

void Bpe::add_bytes(std::string_view bytes, std::vector<std::int32_t>& symbols) const {
  for (const char c : bytes) {
    const std::int32_t id = bytes_[static_cast<unsigned char>(c)];
    if (id >= 0) {
      symbols.push_back(id);
    } else if (rules_.unknown && !(rules_.fuse_unknown && !symbols.empty() && symbols.back() == *rules_.unknown)) {
      symbols.push_back(*rules_.unknown);
    }
  }
}

// Cuts the text where no merge can reach across, so that what the cache and the heap see is about a word.
void Bpe::encode_characters(std::string_view valid, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t>& symbols = scratch.symbols_;
  symbols.clear();
  std::size_t start = 0;
  for (std::size_t at = 0; at < valid.size();) {
    const std::string_view character = valid.substr(at, utf8_length(valid[at]));
    const std::int32_t id = character_id(character);
    const std::size_t before = symbols.size();
    if (id >= 0) {
      symbols.push_back(id);
    } else if (rules_.byte_fallback && std::all_of(character.begin(), character.end(), [&](char c) {
                 return bytes_[static_cast<unsigned char>(c)] >= 0;
               })) {
      add_bytes(character, symbols);
    } else if (rules_.unknown && !(rules_.fuse_unknown && before > 0 && symbols.back() == *rules_.unknown)) {
      symbols.push_back(*rules_.unknown);
    }
    if (before > 0 && symbols.size() > before && !(rules_.unknown && symbols[before] == *rules_.unknown) &&
        !sieve_.may_join(symbols[before - 1], symbols[before])) {
      std::array<std::int32_t, 4> next;  // a character has at most four symbols
      const std::size_t num_next = symbols.size() - before;
      std::copy_n(symbols.begin() + static_cast<std::ptrdiff_t>(before), num_next, next.begin());
      symbols.resize(before);
      merge_cached(valid.substr(start, at - start), scratch, ids);
      symbols.assign(next.begin(), next.begin() + num_next);
      start = at;
    }
    at += character.size();
  }
  if (!symbols.empty()) merge_cached(valid.substr(start), scratch, ids);
}

// `source` is the text; of characters the symbols are already in the scratch memory, of bytes they are made here.
void Bpe::merge_cached(std::string_view source, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  Scratch::Cached* entry = nullptr;
  std::uint64_t hash = 0;
  if (source.size() <= kCachedBytes && !scratch.cache_.empty()) {
    hash = hash_bytes(source);
    entry = &scratch.cache_[hash % kCacheEntries];
    if (entry->holds(source, hash)) {
      ids.insert(ids.end(), entry->ids, entry->ids + entry->num_ids);
      return;
    }
  }
  const std::size_t before = ids.size();
  int whole = -1;
  if (rules_.byte_level) {
    if (rules_.ignore_merges) whole = pieces_.find(source);
    scratch.symbols_.clear();
    if (whole < 0) add_bytes(source, scratch.symbols_);
  }
  if (whole >= 0)
    ids.push_back(whole);
  else
    merge_symbols(scratch, ids);
  if (entry == nullptr || ids.size() - before > kCachedIds) return;
  entry->hash = hash;
  entry->size = static_cast<std::uint8_t>(source.size());
  entry->num_ids = static_cast<std::uint8_t>(ids.size() - before);
  std::copy(source.begin(), source.end(), entry->text);
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry->ids);
}

void Bpe::merge_symbols(Scratch& scratch, std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t>& symbols = scratch.symbols_;
  if (symbols.size() <= kShort) return merge_short(symbols.data(), static_cast<int>(symbols.size()), ids);
  std::size_t start = 0;
  for (std::size_t i = 1; i <= symbols.size(); ++i) {
    if (i < symbols.size() && sieve_.may_join(symbols[i - 1], symbols[i])) continue;
    if (i - start <= kShort)
      merge_short(symbols.data() + start, static_cast<int>(i - start), ids);
    else
      scratch.long_merge_.run(merges_, symbols.data() + start, i - start, ids);
    start = i;
  }
}

void Bpe::merge_short(const std::int32_t* symbols, int count, std::vector<std::int32_t>& ids) const {
  std::int32_t tokens[kShort];
  MergeTable::Found found[kShort];  // of token i and the next
  std::copy(symbols, symbols + count, tokens);
  for (int i = 0; i + 1 < count; ++i) found[i] = merges_.find(tokens[i], tokens[i + 1]);
  while (count > 1) {
    int best = 0;
    for (int i = 1; i + 1 < count; ++i)
      if (found[i].rank < found[best].rank) best = i;
    if (found[best].rank == MergeTable::kNever) break;
    tokens[best] = found[best].merged;
    std::copy(tokens + best + 2, tokens + count, tokens + best + 1);
    std::copy(found + best + 1, found + count - 1, found + best);
    --count;
    if (best > 0) found[best - 1] = merges_.find(tokens[best - 1], tokens[best]);
    if (best + 1 < count) found[best] = merges_.find(tokens[best], tokens[best + 1]);
  }
  ids.insert(ids.end(), tokens, tokens + count);
}

}  // namespace octavo
