// For tests: a served model's words: the bytes as tokens (byte b is id 3 + b), and a plain chat template.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "server/words.h"

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

inline Tokenizer byte_tokenizer() {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  v.tokens = {"<unk>", "<s>", "</s>"};
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) v.tokens.push_back(spelled_byte(byte, next));
  v.tokens.emplace_back("QQ");  // such a vocabulary has at least one merge
  v.merges = {"Q Q"};
  v.types.assign(v.tokens.size(), 1);
  v.types[0] = v.types[1] = v.types[2] = 3;
  v.bos = 1;
  v.eos = 2;
  auto tokenizer = Tokenizer::from_vocabulary(v);
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error().message());
  return *std::move(tokenizer);
}

inline Words test_words() {
  Words words{.names = {"tiny", "other"}, .path = "/models/tiny", .tokenizer = byte_tokenizer()};
  auto parsed = ChatTemplate::parse(
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
      "{% for c in m.tool_calls %}<{{ c.function.name }}:{{ c.function.arguments | tojson }}>{% endfor %}"
      "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
      "{% if enable_thinking %}think{% endif %}{% if add_generation_prompt %}[assistant]{% endif %}");
  EXPECT_TRUE(parsed);
  words.chat_template = TemplateAsset{*std::move(parsed), OrderedJson::object(), "test"};
  words.vocab = words.tokenizer.vocab_size();
  words.max_model_len = 100;
  words.longest_token = longest_token_bytes(words.tokenizer);
  return words;
}

inline std::string text_of(const Words& words, const std::vector<std::int32_t>& ids) {
  return words.tokenizer.decode(ids);
}

}  // namespace octavo
