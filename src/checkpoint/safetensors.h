// safetensors: an 8-byte little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, then the bytes.
//
// The header is checked before anything is used: length against the file and a bound of 100 MB, dtypes, shapes against
// offsets without overflow, offsets in bounds, no overlap, no duplicate names. Errors name file and tensor.
// Format: the safetensors project's README.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/stored_tensor.h"

namespace octavo {

struct SafetensorsFile {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

Result<SafetensorsFile> read_safetensors(const std::string& path);

// The same of a file's bytes in memory that `owner` keeps alive; `path` is for messages.
Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                          const std::string& path);

// Writes tensors in the given order, 8-byte aligned header, to a temporary file that is renamed into place.
Status write_safetensors(const std::string& path, const std::vector<StoredTensor>& tensors,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace octavo
