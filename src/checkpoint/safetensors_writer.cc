#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unordered_set>

#include "base/json.h"
#include "base/strings.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_dtype.h"

namespace octavo {
namespace {

// A name as a JSON string. Invalid UTF-8 would make a file that nobody can open again.
Result<std::string> json_string(std::string_view text) {
  if (find_invalid_utf8(text) != std::string_view::npos) return Error(in_quotes(text) + " is not valid UTF-8");
  return to_text(Json(text));
}

Result<std::string> header_entry(const StoredTensor& tensor, std::int64_t& offset) {
  const std::string_view dtype = safetensors_name(tensor.dtype);
  if (dtype.empty())
    return Error("safetensors has no dtype for " + std::string(dtype_info(tensor.dtype).name), ErrorKind::unsupported);
  OCTAVO_TRY(const std::int64_t bytes, stored_bytes(tensor.dtype, tensor.shape));
  if (static_cast<std::uint64_t>(bytes) != tensor.bytes.size())
    return Error("shape " + shape_text(tensor.shape) + " needs " + std::to_string(bytes) + " bytes, but " +
                 std::to_string(tensor.bytes.size()) + " were given");
  OCTAVO_TRY(const std::string name, json_string(tensor.name));
  const std::int64_t begin = offset;
  offset += bytes;
  return name + ":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + shape_text(tensor.shape) +
         ",\"data_offsets\":" + shape_text(std::vector<std::int64_t>{begin, offset}) + "}";
}

Result<std::string> make_header(const std::vector<StoredTensor>& tensors,
                                const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    for (const auto& [key, value] : metadata) {
      OCTAVO_TRY(const std::string key_text, json_string(key));
      OCTAVO_TRY(const std::string value_text, json_string(value));
      header += (header.size() == 1 ? "\"__metadata__\":{" : ",") + key_text + ":" + value_text;
    }
    header += "}";
  }
  std::int64_t offset = 0;
  std::unordered_set<std::string_view> names{"__metadata__"};
  for (const StoredTensor& tensor : tensors) {
    const std::string what = "tensor " + in_quotes(tensor.name);
    if (!names.insert(tensor.name).second) return Error(what + " would be written twice");
    OCTAVO_TRY(const std::string entry, header_entry(tensor, offset).in(what));
    header += (header.size() == 1 ? "" : ",") + entry;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace

Status write_safetensors(const std::string& path, const std::vector<StoredTensor>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  OCTAVO_TRY(const std::string header, make_header(tensors, metadata).in(path));
  const std::string temporary = path + ".partial";
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    const std::uint64_t length = header.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const StoredTensor& tensor : tensors)
      file.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
    file.close();
    if (!file) {
      const Error failure(temporary + ": cannot write: " + std::strerror(errno));
      std::remove(temporary.c_str());
      return failure;
    }
  }
  std::error_code code;
  std::filesystem::rename(temporary, path, code);
  if (code) {
    std::remove(temporary.c_str());
    return Error(path + ": cannot rename into place: " + code.message());
  }
  return {};
}

}  // namespace octavo
