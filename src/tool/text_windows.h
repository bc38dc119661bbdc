// TextWindows: a text file as the token sequences that an evaluation runs over: consecutive windows of at most
// `context` tokens, each with what the model expects in front (mostly its BOS). What is written like a special token is
// text.
//
// Refuses a file that is not there, not UTF-8, or without two tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace octavo {

struct TextWindows {
  int context = 0;
  int num_prefix = 0;                              // tokens in front of each window that are not of the text
  std::int64_t num_tokens = 0;                     // of the text
  std::vector<std::vector<std::int32_t>> windows;  // each of two tokens or more
  std::optional<int> decode_from;                  // of every window: later tokens are fed one by one

  // The same for a window's first `end` tokens, as Engine::logits() wants it.
  std::optional<int> decode_from_in(int end) const;
};

constexpr int kLongestDefaultWindow = 2048;

// The tokens of the text; needs no weights, so that a wrong file is found before they are loaded.
struct TextTokens {
  std::string file;
  std::vector<std::int32_t> prefix;  // what the model expects in front
  std::vector<std::int32_t> ids;
};
Result<TextTokens> read_text_tokens(const std::string& file, const std::string& model_path);

// context and decode_from: as the flags say; no context: the model's positions, at most kLongestDefaultWindow.
Result<TextWindows> cut_windows(const TextTokens& text, const ModelSpec& spec, std::optional<int> context,
                                std::optional<int> decode_from = std::nullopt);

// The pages of the prefix cache are whole, so blocks of rows end where pages do.
int rows_per_block(const Engine& engine);

}  // namespace octavo
