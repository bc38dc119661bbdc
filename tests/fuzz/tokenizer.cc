// Fuzz target: a tokenizer.json, perhaps a tokenizer_config.json behind a NUL byte, and a text behind another.
#include <cstddef>
#include <cstdint>

#include "base/json.h"
#include "tests/fuzz/words.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octavo;
  const auto parts = split_input(data, size, 3);
  const auto json = parse_json(parts[0], "tokenizer.json");
  if (!succeeds(json)) return 0;
  const auto config = parse_json(parts[1], "tokenizer_config.json");
  const auto tokenizer = Tokenizer::from_json(*json, config ? &*config : nullptr);
  if (!succeeds(tokenizer)) return 0;
  require(!tokenizer->description().empty(), "a tokenizer describes itself", parts[0]);
  require_words(*tokenizer, kMixedText);
  require_words(*tokenizer, parts[2]);
  return 0;
}
