#include "checkpoint/test_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace octavo::testing {

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "octavo-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code code;
  std::filesystem::remove_all(path_, code);
}

std::string TemporaryDirectory::write(const std::string& name, std::string_view bytes) const {
  const std::filesystem::path file = path(name);
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file.string();
}

std::string safetensors_bytes(const std::vector<MadeTensor>& tensors, const std::string& padding) {
  std::string header = "{";
  std::string data;
  for (const MadeTensor& tensor : tensors) {
    header += (header.size() > 1 ? ",\"" : "\"") + tensor.name + "\":{\"dtype\":\"" + tensor.dtype +
              "\",\"shape\":" + shape_text(tensor.shape) + ",\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data += tensor.data;
    header += std::to_string(data.size()) + "]}";
  }
  return safetensors_bytes(header + "}" + padding, data);
}

std::string gguf_string(std::string_view text) { return raw<std::uint64_t>(text.size()) + std::string(text); }

std::string key_record(std::string_view name, std::uint32_t type, const std::string& value) {
  return gguf_string(name) + raw(type) + value;
}

std::string key_u32(std::string_view name, std::uint32_t value) { return key_record(name, 4, raw(value)); }

std::string key_string(std::string_view name, std::string_view value) {
  return key_record(name, 8, gguf_string(value));
}

std::string tensor_record(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                          std::uint64_t offset) {
  return gguf_string(name) + raw(static_cast<std::uint32_t>(dims.size())) + raw_list(dims) + raw(type) + raw(offset);
}

std::string GgufParts::bytes() const {
  std::string file = "GGUF" + raw(version) + raw<std::uint64_t>(tensors.size() + num_tensors_off) +
                     raw<std::uint64_t>(keys.size() + num_keys_off);
  for (const std::string& key : keys) file += key;
  for (const std::string& tensor : tensors) file += tensor;
  if (alignment > 0) file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
  return file + data;
}

Result<Buffer> HostDevice::allocate(std::size_t bytes, const std::string& purpose) {
  if (bytes > limit) return Error("cannot allocate for " + purpose, ErrorKind::exhausted);
  copied += bytes;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 64) / 64 * 64));
  return Buffer(data, bytes, [](std::byte* pointer) { std::free(pointer); });
}

Result<Buffer> HostDevice::adopt(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                 const std::string&) {
  adopted += bytes.size();
  return Buffer(const_cast<std::byte*>(bytes.data()), bytes.size(), [owner = std::move(owner)](std::byte*) {});
}

void HostDevice::upload(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

ExactBytes::ExactBytes(std::string_view text) : data(new std::byte[text.size()]), bytes(data.get(), text.size()) {
  if (!text.empty()) std::memcpy(data.get(), text.data(), text.size());
}

std::string large_fixtures(int cases) {
  const char* place = std::getenv("OCTAVO_FIXTURES");
  if (place != nullptr && *place != '\0') return place;
  std::printf("%d cases not run: set OCTAVO_FIXTURES\n", cases);
  return {};
}

}  // namespace octavo::testing
