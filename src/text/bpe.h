// Byte pair encoding of one piece of text: symbols (bytes, or characters) merged by rank, lowest first, leftmost first.
//
// Short runs of symbols merge in place, long ones by LongMerge. Symbols that the vocabulary lacks become byte tokens,
// the unknown token, or nothing, in this order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/long_merge.h"
#include "text/merge_table.h"
#include "text/token_table.h"

namespace octavo {

struct BpeRules {
  bool byte_level = false;     // symbols are bytes; else characters
  bool ignore_merges = false;  // a piece that is a token is taken whole
  bool byte_fallback = false;  // characters without a token become tokens <0xNN>
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  std::optional<std::int32_t> unknown;
};

class Bpe {
 public:
  // What one call of encode() keeps: working memory, and the last pieces with their ids, since words repeat.
  class Scratch {
   public:
    explicit Scratch(bool with_cache);
    ~Scratch();

   private:
    friend class Bpe;
    struct Cached;
    std::vector<Cached> cache_;
    std::vector<std::int32_t> symbols_;
    LongMerge long_merge_;
  };

  // `pieces` maps what text consists of (bytes, not their spelling) to ids; `bytes` the ids of single bytes: those of
  // the byte tokens, or of a byte-level vocabulary's own letters, -1 where there is none.
  Bpe(const BpeRules& rules, TokenTable pieces, const std::vector<Merge>& merges,
      const std::array<std::int32_t, 256>& bytes);

  void encode(std::string_view valid, Scratch& scratch, std::vector<std::int32_t>& ids) const;

  // Bytes that are not UTF-8, by the tokens of single bytes.
  void encode_bytes(std::string_view bytes, Scratch& scratch, std::vector<std::int32_t>& ids) const;

  const BpeRules& rules() const { return rules_; }

 private:
  void collect_sieve(const std::vector<Merge>& merges);
  std::int32_t character_id(std::string_view character) const;
  void encode_characters(std::string_view valid, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void merge_cached(std::string_view source, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void merge_symbols(Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void merge_short(const std::int32_t* symbols, int count, std::vector<std::int32_t>& ids) const;
  void add_bytes(std::string_view bytes, std::vector<std::int32_t>& symbols) const;

  BpeRules rules_;
  TokenTable pieces_;
  MergeTable merges_;
  NeighbourSieve sieve_;
  std::array<std::int32_t, 256> bytes_;
  std::vector<std::int32_t> characters_;  // id by code point below U+10000, -1 where there is none
};

}  // namespace octavo
