// For tests: a served model's words: the bytes as tokens (byte b is id 3 + b), and a plain chat template.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "server/words.h"
#include "text/test_vocabulary.h"

namespace octavo {

inline Tokenizer byte_tokenizer() {
  Vocabulary v = byte_vocabulary({"QQ"}, {"Q Q"});
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
