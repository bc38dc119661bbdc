// Fuzz target: a list of token ids, as commands take them. What is accepted is the list, and nothing but ids.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/readers.h"
#include "tool/token_ids.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octavo;
  constexpr int kVocabulary = 512;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto list = parse_json(text, "ids.json");
  if (!succeeds(list)) return 0;
  const auto ids = token_ids_of(*list, kVocabulary);
  if (!succeeds(ids)) return 0;
  for (const std::int32_t id : *ids) require(id >= 0 && id < kVocabulary, "ids are in the vocabulary", text);
  require(Json(*ids) == *list, "ids are those of the list", text);
  return 0;
}
