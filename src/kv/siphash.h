// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012): a keyed hash that nobody without the key can
// steer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace octavo {

struct SipKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

struct SipHash128 {
  std::uint64_t first = 0;   // bytes 0..7 of the output, little-endian
  std::uint64_t second = 0;  // bytes 8..15
};

SipHash128 siphash128(const SipKey& key, std::span<const std::byte> message);

}  // namespace octavo
