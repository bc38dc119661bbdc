// What the tests of this room share: a temporary directory, files made byte by byte (right and wrong ones), a device
// that is plain memory, and the place of the large fixtures.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/stored_tensor.h"
#include "tensor/device.h"

namespace octavo::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string path(const std::string& name = {}) const { return name.empty() ? path_ : path_ + "/" + name; }
  std::string write(const std::string& name, std::string_view bytes) const;  // -> its path

 private:
  std::string path_;
};

// The bytes of a number, little endian.
template <class T>
std::string raw(T number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

template <class T>
std::string raw_list(const std::vector<T>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

// A safetensors file of this header and data, right or wrong.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return raw<std::uint64_t>(header.size()) + header + data;
}

struct MadeTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};
std::string safetensors_bytes(const std::vector<MadeTensor>& tensors, const std::string& padding = {});

// A GGUF file piece by piece.
struct GgufParts {
  std::uint32_t version = 3;
  std::vector<std::string> keys;     // whole records: key_*() below
  std::vector<std::string> tensors;  // whole records: tensor_record()
  std::string data;
  std::uint64_t num_tensors_off = 0;  // added to the true counts
  std::uint64_t num_keys_off = 0;
  std::uint64_t alignment = 32;

  std::string bytes() const;
};
std::string gguf_string(std::string_view text);
std::string key_u32(std::string_view name, std::uint32_t value);
std::string key_string(std::string_view name, std::string_view value);
std::string key_record(std::string_view name, std::uint32_t type, const std::string& value);
std::string tensor_record(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                          std::uint64_t offset);

// Memory of the host. `adopted` and `copied` count bytes, to see what a binder did.
class HostDevice final : public Device {
 public:
  std::string describe() const override { return "host memory"; }
  MemoryInfo memory() const override { return {}; }
  Result<Buffer> allocate(std::size_t bytes, const std::string& purpose) override;
  void fill_zero(std::byte* data, std::size_t bytes) override { std::memset(data, 0, bytes); }
  Result<Buffer> adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                       const std::string&) override;
  void upload(std::byte* to, std::span<const std::byte> from) override;
  void download(std::span<std::byte> to, const std::byte* from) override { std::memcpy(to.data(), from, to.size()); }
  void synchronize() override {}
  Result<std::unique_ptr<Recording>> record(std::function<void()>) override { return Error("not here"); }

  std::size_t adopted = 0;
  std::size_t copied = 0;
  std::size_t limit = SIZE_MAX;  // allocations beyond it fail
};

// Bytes in memory of exactly their size, so that a sanitizer sees a read beyond them.
struct ExactBytes {
  explicit ExactBytes(std::string_view text);
  std::shared_ptr<std::byte[]> data;
  std::span<const std::byte> bytes;
};

// The fixtures outside the repository, or empty after one printed line that says how many cases are not run.
std::string large_fixtures(int cases);

// "invalid: message" of a failed result, "" of a good one.
template <class T>
std::string message_of(const Result<T>& result) {
  return result ? std::string() : result.error().message();
}

}  // namespace octavo::testing
