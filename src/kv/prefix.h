// PrefixIndex: finds pages that already hold the same beginning.
//
// A full page is named by the hash of everything that decides its bytes: all tokens up to its end, and a root made of
// cache salt, adapter name, and the identity of the cache (formats, scales, transform). 128 bits under a per-process random
// key, so that nobody can construct two prompts with one name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace octavo {

struct PageHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const PageHash&) const = default;
};

// The start of a chain.
PageHash root_hash(std::string_view cache_identity, std::string_view salt, std::string_view adapter);
// The next full page of a chain.
PageHash page_hash(const PageHash& before, std::span<const std::int32_t> tokens);
// All full pages of a sequence of tokens.
std::vector<PageHash> page_hashes(const PageHash& root, std::span<const std::int32_t> tokens, int page_size);

// From name to page, for one group. The ledger keeps it true; it holds no reference itself.
class PrefixIndex {
 public:
  std::optional<std::int32_t> find(const PageHash& hash) const;
  bool insert(const PageHash& hash, std::int32_t page);  // false: another page has this name already
  void erase(const PageHash& hash);
  std::size_t size() const { return pages_.size(); }
  void clear() { pages_.clear(); }

 private:
  struct Hasher {
    std::size_t operator()(const PageHash& hash) const { return static_cast<std::size_t>(hash.low); }
  };
  std::unordered_map<PageHash, std::int32_t, Hasher> pages_;
};

}  // namespace octavo
