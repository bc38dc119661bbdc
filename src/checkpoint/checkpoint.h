// Checkpoint: a model on disk, opened but not interpreted: a directory as Hugging Face lays it out (config.json and
// model.safetensors, or shards named by model.safetensors.index.json), or one .gguf file. Everything is mapped, nothing read.
//
// Refuses: a missing file or shard (named), an index that names tensors its shards lack, duplicate tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/gguf.h"
#include "checkpoint/stored_tensor.h"

namespace octavo {

enum class LoadFormat { automatic, safetensors, gguf, dummy };

class Checkpoint {
 public:
  // dummy needs only config.json; its tensors() is empty.
  static Result<Checkpoint> open(const std::string& path, LoadFormat format = LoadFormat::automatic);
  // For words only (tokenizer, template): a directory is opened without config and weights, whatever they are.
  static Result<Checkpoint> open_text(const std::string& path);

  const std::string& path() const { return path_; }
  LoadFormat format() const { return format_; }  // never automatic
  const Json& config() const { return config_; }  // config.json; empty object for GGUF
  const Json& generation_config() const { return generation_config_; }  // empty object when absent
  const GgufFile* gguf() const { return gguf_.get(); }                  // nullptr for a directory

  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(const std::string& name) const;

  // Text of another file of the directory, such as "tokenizer.json"; nullopt when there is none (always for GGUF).
  Result<std::optional<std::string>> read_text(const std::string& file_name) const;

 private:
  std::string path_;
  LoadFormat format_ = LoadFormat::safetensors;
  Json config_ = Json::object();
  Json generation_config_ = Json::object();
  std::shared_ptr<const GgufFile> gguf_;
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

// MODEL as a user writes it -> a path: a directory, a .gguf file, or org/name in the local Hugging Face cache ($HF_HUB_CACHE,
// $HF_HOME/hub, ~/.cache/huggingface/hub; `environment` is passed in by the caller). Nothing is downloaded. The error says
// what was looked for and where.
struct HubCache {
  std::string hub_directory;
};
Result<std::string> resolve_model_path(const std::string& model, const HubCache& cache);

}  // namespace octavo
