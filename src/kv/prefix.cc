#include "kv/prefix.h"

#include <sys/random.h>

#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "kv/siphash.h"

namespace octavo {
namespace {

// Two sorts of messages are hashed; the sort stands first, so that no root can equal a page.
enum class Message : std::uint64_t { root = 1, page = 2 };

SipKey random_key() {
  SipKey key;
  check(getrandom(&key, sizeof key, 0) == sizeof key, "the kernel gives no random bytes for the prefix index");
  return key;
}

class MessageBytes {
 public:
  explicit MessageBytes(Message sort) { number(static_cast<std::uint64_t>(sort)); }

  void number(std::uint64_t value) { raw(&value, sizeof value); }
  void text(std::string_view text) {  // the length first, so that no two lists of texts read alike
    number(text.size());
    raw(text.data(), text.size());
  }
  void raw(const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t at = bytes_.size();
    bytes_.resize(at + size);
    std::memcpy(bytes_.data() + at, data, size);
  }

  PageHash hash() const {
    static const SipKey key = random_key();  // lives as long as the names that were made with it
    const SipHash128 hash = siphash128(key, bytes_);
    return {hash.first, hash.second};
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

PageHash root_hash(std::string_view cache_identity, std::string_view salt, std::string_view adapter) {
  MessageBytes message(Message::root);
  message.text(cache_identity);
  message.text(salt);
  message.text(adapter);
  return message.hash();
}

PageHash page_hash(const PageHash& before, std::span<const std::int32_t> tokens) {
  MessageBytes message(Message::page);
  message.number(before.high);
  message.number(before.low);
  message.raw(tokens.data(), tokens.size_bytes());
  return message.hash();
}

std::vector<PageHash> page_hashes(const PageHash& root, std::span<const std::int32_t> tokens, int page_size) {
  check(page_size > 0, "a page holds at least one token");
  const auto size = static_cast<std::size_t>(page_size);
  std::vector<PageHash> chain;
  chain.reserve(tokens.size() / size);
  PageHash last = root;
  for (std::size_t begin = 0; begin + size <= tokens.size(); begin += size) {
    last = page_hash(last, tokens.subspan(begin, size));
    chain.push_back(last);
  }
  return chain;
}

std::optional<std::int32_t> PrefixIndex::find(const PageHash& hash) const {
  const auto found = pages_.find(hash);
  if (found == pages_.end()) return std::nullopt;
  return found->second;
}

bool PrefixIndex::insert(const PageHash& hash, std::int32_t page) { return pages_.emplace(hash, page).second; }

void PrefixIndex::erase(const PageHash& hash) { pages_.erase(hash); }

}  // namespace octavo
