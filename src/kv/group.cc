#include "kv/group.h"

#include <algorithm>

#include "base/check.h"

namespace octavo {

std::int64_t bytes_per_token(const CacheGroup& group) {
  std::int64_t bytes = 0;
  for (const LayerCache& layer : group.layers) bytes += bytes_per_token(layer.format);
  return bytes;
}

std::int64_t state_bytes(const CacheGroup& group) {
  std::int64_t numbers = 0;
  for (const std::int64_t part : group.state_parts) numbers += part;
  return numbers * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t bytes_per_page(const CacheGroup& group, int page_size) {
  if (group.lifetime == Lifetime::state) return state_bytes(group) * static_cast<std::int64_t>(group.layers.size());
  return bytes_per_token(group) * page_size;
}

std::int64_t live_pages(const CacheGroup& group, std::int64_t num_tokens, int page_size, int step_tokens) {
  check(num_tokens >= 0 && page_size > 0 && step_tokens >= 0, "live_pages counts tokens");
  if (num_tokens == 0) return 0;
  if (group.lifetime == Lifetime::state) return 1;
  const std::int64_t all = (num_tokens + page_size - 1) / page_size;
  if (group.lifetime == Lifetime::full) return all;
  // The step's tokens and the window - 1 before its first one, wherever page edges fall among them.
  const std::int64_t visible = std::int64_t{group.window} - 1 + step_tokens;
  if (visible <= 1) return std::min<std::int64_t>(all, 1);
  return std::min(all, (visible - 2) / page_size + 2);
}

}  // namespace octavo
