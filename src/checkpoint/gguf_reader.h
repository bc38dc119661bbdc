// GgufReader: a cursor over the bytes of a GGUF file. Every read checks what is left before it looks or allocates, and
// an error says at which byte the file ended or what stands there instead.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/gguf.h"

namespace octavo {

// What a tensor of a GGML type is called, and its dtype if octavo has one.
struct GgmlType {
  std::string name;  // "Q4_K", or "77" for a number that has no name
  DType dtype = DType::f32;
  bool supported = false;
};
GgmlType ggml_type(std::uint32_t number);

class GgufReader {
 public:
  explicit GgufReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return bytes_.size() - position_; }

  template <class T>
  Result<T> number() {
    if (left() < sizeof(T)) return truncated(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return value;
  }

  Result<std::string> string();
  // One metadata value of type `type`, arrays included. Refuses arrays of arrays and whole numbers above 2^63 - 1.
  Result<GgufValue> value(std::uint32_t type);

 private:
  Error truncated(std::uint64_t needed) const;
  Result<std::int64_t> integer(std::uint32_t type);
  Result<bool> boolean();
  Result<GgufValue> array();

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::uint64_t elements_ = 0;  // of all arrays so far
};

}  // namespace octavo
