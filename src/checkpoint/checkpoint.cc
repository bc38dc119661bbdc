#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/strings.h"
#include "checkpoint/safetensors.h"

namespace octavo {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

std::string in_directory(const std::string& directory, const std::string& name) {
  return (std::filesystem::path(directory) / name).string();
}

// The first file of the directory with this ending, by name; empty when there is none.
std::string first_with_ending(const std::string& directory, std::string_view ending) {
  std::set<std::string> found;
  std::error_code code;
  std::filesystem::directory_iterator entries(directory, code);
  for (const std::filesystem::directory_iterator end; !code && entries != end; entries.increment(code))
    if (const std::string name = entries->path().filename().string(); name.ends_with(ending)) found.insert(name);
  return found.empty() ? std::string() : *found.begin();
}

Result<Json> read_object(const std::string& path) {
  OCTAVO_TRY(Json json, read_json_file(path));
  if (!json.is_object()) return Error(path + ": must hold a JSON object");
  return json;
}

Error no_weights(const std::string& directory) {
  std::string message = directory + ": there is neither " + kSingleFile + " nor " + kIndexFile;
  if (const std::string gguf = first_with_ending(directory, ".gguf"); !gguf.empty())
    message += "; to run the GGUF file there, give its path " + in_directory(directory, gguf);
  else if (const std::string other = first_with_ending(directory, ".safetensors"); !other.empty())
    message += ", and without them " + in_quotes(other) + " cannot be placed; complete the download";
  else if (!first_with_ending(directory, ".bin").empty() || !first_with_ending(directory, ".pth").empty())
    message += "; PyTorch files are not read, convert them to safetensors";
  return Error(message, ErrorKind::not_found);
}

struct IndexedTensor {
  std::string name;
  std::string shard;
};

Result<std::vector<IndexedTensor>> read_index(const std::string& path) {
  OCTAVO_TRY(const Json index, read_object(path));
  const Json* map = find_member(index, "weight_map");
  if (map == nullptr || !map->is_object() || map->empty())
    return Error(path + ": \"weight_map\" must be an object of tensor names and file names");
  std::vector<IndexedTensor> tensors;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string()) return Error(path + ": tensor " + in_quotes(name) + ": its file name must be a string");
    const auto& file = shard.get_ref<const std::string&>();
    if (file.empty() || file.find('/') != std::string::npos || file == ".." || visible(file, file.size()) != file)
      return Error(path + ": tensor " + in_quotes(name) + ": " + in_quotes(file) +
                   " is not the name of a file beside the index");
    tensors.push_back({name, file});
  }
  return tensors;
}

// Every shard once; then each tensor of the index must be where the index says.
Result<std::vector<StoredTensor>> read_shards(const std::string& directory) {
  const std::string index_path = in_directory(directory, kIndexFile);
  OCTAVO_TRY(const std::vector<IndexedTensor> index, read_index(index_path));
  std::set<std::string> shards;
  for (const IndexedTensor& tensor : index) shards.insert(tensor.shard);
  std::vector<std::string> missing;
  for (const std::string& shard : shards)
    if (!file_exists(in_directory(directory, shard))) missing.push_back(shard);
  if (!missing.empty())
    return Error(in_directory(directory, missing[0]) + ": this shard is missing (" + std::to_string(missing.size()) +
                     " of " + std::to_string(shards.size()) + " that " + kIndexFile +
                     " names are); complete the download",
                 ErrorKind::not_found);

  std::vector<StoredTensor> tensors;
  std::unordered_map<std::string, std::string> shard_of;
  for (const std::string& shard : shards) {
    OCTAVO_TRY(SafetensorsFile file, read_safetensors(in_directory(directory, shard)));
    for (StoredTensor& tensor : file.tensors) {
      const auto [at, first] = shard_of.emplace(tensor.name, shard);
      if (!first)
        return Error(directory + ": tensor " + in_quotes(tensor.name) + " is in both " + at->second + " and " + shard);
      tensors.push_back(std::move(tensor));
    }
  }
  for (const IndexedTensor& tensor : index) {
    const auto at = shard_of.find(tensor.name);
    if (at == shard_of.end() || at->second != tensor.shard)
      return Error(index_path + ": tensor " + in_quotes(tensor.name) + " is not in " + tensor.shard +
                   " as it says; index and shards do not belong together");
  }
  return tensors;
}

Result<std::vector<StoredTensor>> read_directory_weights(const std::string& directory) {
  const std::string single = in_directory(directory, kSingleFile);
  const bool has_index = file_exists(in_directory(directory, kIndexFile));
  if (file_exists(single)) {
    if (has_index) log::warn("checkpoint has a single file and an index, the single file is read", {{"file", single}});
    OCTAVO_TRY(SafetensorsFile file, read_safetensors(single));
    return std::move(file.tensors);
  }
  if (has_index) return read_shards(directory);
  return no_weights(directory);
}

Result<LoadFormat> resolve_format(const std::string& path, LoadFormat format) {
  if (directory_exists(path)) {
    if (format == LoadFormat::gguf)
      return Error(path + ": is a directory; load format gguf needs the path of one .gguf file");
    return format == LoadFormat::automatic ? LoadFormat::safetensors : format;
  }
  if (!file_exists(path)) return Error(path + ": no such file or directory", ErrorKind::not_found);
  if (format == LoadFormat::safetensors || format == LoadFormat::dummy || path.ends_with(".safetensors"))
    return Error(path + ": is a file, but a directory with config.json is needed; give the directory it is in");
  return LoadFormat::gguf;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& path, LoadFormat format) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  OCTAVO_TRY(checkpoint.format_, resolve_format(path, format));
  if (checkpoint.format_ == LoadFormat::gguf) {
    OCTAVO_TRY(GgufFile gguf, GgufFile::open(path));
    checkpoint.tensors_ = gguf.tensors();
    checkpoint.gguf_ = std::make_shared<const GgufFile>(std::move(gguf));
  } else {
    const std::string config = in_directory(path, "config.json");
    if (!file_exists(config)) {
      if (!file_exists(in_directory(path, kSingleFile)) && !file_exists(in_directory(path, kIndexFile)) &&
          checkpoint.format_ == LoadFormat::safetensors && !first_with_ending(path, ".gguf").empty())
        return no_weights(path);
      return Error(config + ": does not exist; a checkpoint directory holds config.json and " + kSingleFile,
                   ErrorKind::not_found);
    }
    OCTAVO_TRY(checkpoint.config_, read_object(config));
    if (const std::string generation = in_directory(path, "generation_config.json"); file_exists(generation)) {
      OCTAVO_TRY(checkpoint.generation_config_, read_object(generation));
    }
    if (checkpoint.format_ == LoadFormat::safetensors) {
      OCTAVO_TRY(checkpoint.tensors_, read_directory_weights(path));
    }
  }
  checkpoint.by_name_.reserve(checkpoint.tensors_.size());
  for (std::size_t i = 0; i < checkpoint.tensors_.size(); ++i)
    checkpoint.by_name_.emplace(checkpoint.tensors_[i].name, i);
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_text(const std::string& path) {
  if (!directory_exists(path)) return open(path);
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  checkpoint.format_ = LoadFormat::dummy;
  return checkpoint;
}

const StoredTensor* Checkpoint::find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

Result<std::optional<std::string>> Checkpoint::read_text(const std::string& file_name) const {
  if (gguf_ != nullptr) return std::optional<std::string>();
  const std::string path = in_directory(path_, file_name);
  if (!file_exists(path)) return std::optional<std::string>();
  OCTAVO_TRY(std::string text, read_file(path));
  return std::optional(std::move(text));
}

}  // namespace octavo
