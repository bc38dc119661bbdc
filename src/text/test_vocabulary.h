// For tests: a byte-level vocabulary: three special tokens, the 256 bytes (byte b is id 3 + b), then pieces.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace octavo {

constexpr int kByte0 = 3;

// The character that stands for a byte in byte-level vocabularies: itself if it is printable, else the next from 256
// on.
inline std::string spelled_byte(int byte, int& next) {
  const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  const int character = printable ? byte : next++;
  if (character < 128) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

// Such a vocabulary has at least one merge.
inline Vocabulary byte_vocabulary(const std::vector<std::string>& pieces, std::vector<std::string> merges) {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  v.tokens = {"<unk>", "<s>", "</s>"};
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) v.tokens.push_back(spelled_byte(byte, next));
  v.tokens.insert(v.tokens.end(), pieces.begin(), pieces.end());
  v.merges = std::move(merges);
  v.types.assign(v.tokens.size(), 1);
  v.types[0] = v.types[1] = v.types[2] = 3;
  return v;
}

}  // namespace octavo
