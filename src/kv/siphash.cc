#include "kv/siphash.h"

#include <bit>
#include <cstring>

namespace octavo {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }

  void absorb(std::uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }

  std::uint64_t squeeze() {
    rounds(4);
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace

SipHash128 siphash128(const SipKey& key, std::span<const std::byte> message) {
  SipState state{key.k0 ^ 0x736f6d6570736575u, key.k1 ^ 0x646f72616e646f6du ^ 0xeeu, key.k0 ^ 0x6c7967656e657261u,
                 key.k1 ^ 0x7465646279746573u};
  const std::size_t whole = message.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, message.data() + at, 8);
    state.absorb(word);
  }
  std::uint64_t last = static_cast<std::uint64_t>(message.size()) << 56;
  for (std::size_t i = whole; i < message.size(); ++i)
    last |= static_cast<std::uint64_t>(message[i]) << (8 * (i - whole));
  state.absorb(last);
  state.v2 ^= 0xeeu;
  SipHash128 hash;
  hash.first = state.squeeze();
  state.v1 ^= 0xddu;
  hash.second = state.squeeze();
  return hash;
}

}  // namespace octavo
