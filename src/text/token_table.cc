#include "text/token_table.h"

#include <algorithm>
#include <cstring>

namespace octavo {
namespace {

std::uint64_t load(const char* bytes, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t kFirst = 0x9E3779B97F4A7C15, kSecond = 0xD6E8FEB86659FD93;
  std::uint64_t hash = kFirst ^ bytes.size();
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 8; left -= 8, at += 8) hash = mix(hash ^ load(at, 8), kSecond);
  return mix(hash ^ load(at, left), kSecond ^ kFirst);
}

bool TokenTable::add(std::string_view text, bool findable) {
  const int id = size();
  arena_.append(text);
  ends_.push_back(arena_.size());
  if (!findable) return true;
  if ((findable_ + 1) * 2 > slots_.size()) grow();
  std::int32_t& slot = slots_[slot_of(text)];
  if (slot >= 0) return false;
  slot = id;
  ++findable_;
  longest_ = std::max(longest_, text.size());
  return true;
}

std::string_view TokenTable::text(int id) const {
  const auto i = static_cast<std::size_t>(id);
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(arena_).substr(begin, ends_[i] - begin);
}

int TokenTable::find(std::string_view text) const {
  if (slots_.empty() || text.size() > longest_) return -1;
  return slots_[slot_of(text)];
}

std::size_t TokenTable::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_bytes(text) & mask;
  while (slots_[slot] >= 0 && this->text(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

void TokenTable::grow() {
  const std::vector<std::int32_t> old = std::move(slots_);
  slots_.assign(std::max<std::size_t>(1024, old.size() * 2), -1);
  for (const std::int32_t id : old)
    if (id >= 0) slots_[slot_of(text(id))] = id;
}

}  // namespace octavo
