#include "tool/token_ids.h"

#include "base/shown.h"

namespace octavo {

Result<std::vector<std::int32_t>> token_ids_of(const Json& list, int vocab) {
  if (!list.is_array()) return Error("expected a JSON list of token ids");
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    const bool whole = id.is_number_integer() && id >= 0 && id < vocab;
    if (!whole)
      return Error(shown(id) + " is not a token id: they are whole numbers from 0 to " + std::to_string(vocab - 1));
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace octavo
