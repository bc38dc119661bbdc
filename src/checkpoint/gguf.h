// GGUF versions 2 and 3, little endian: header, key-value metadata, tensor records, data. Knows the container only; what
// the keys and tensor names of a family mean stands in that family's file.
//
// Every count, length and offset is checked against the bytes that are left before it is used. Errors name file and key.
// Layout: the specification in ggml (docs/gguf.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "checkpoint/stored_tensor.h"

namespace octavo {

using GgufValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>>;

class GgufFile {
 public:
  static Result<GgufFile> open(const std::string& path);
  // The same of a file's bytes in memory that `owner` keeps alive; `path` is for messages.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& path);

  const std::map<std::string, GgufValue>& metadata() const { return metadata_; }
  // Typed reads; nullopt when the key is absent, an error when it has another type. Whole numbers of any width read as int.
  Result<std::optional<std::int64_t>> find_int(const std::string& key) const;
  Result<std::optional<double>> find_number(const std::string& key) const;
  Result<std::optional<bool>> find_bool(const std::string& key) const;
  Result<std::optional<std::string>> find_string(const std::string& key) const;
  const std::vector<std::string>* find_strings(const std::string& key) const;
  const std::vector<std::int64_t>* find_ints(const std::string& key) const;
  const std::vector<double>* find_numbers(const std::string& key) const;

  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  std::uint32_t version() const { return version_; }

 private:
  std::uint32_t version_ = 0;
  std::map<std::string, GgufValue> metadata_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace octavo
