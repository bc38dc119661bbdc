#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/strings.h"
#include "checkpoint/checkpoint.h"

namespace octavo {
namespace {

constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

bool is_plain_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         text.find_first_not_of(kNameCharacters) == std::string_view::npos;
}

// "org/name" or "name" -> "models--org--name"; empty if this cannot be a name on the hub.
std::string hub_folder(std::string_view model) {
  const std::size_t slash = model.find('/');
  const std::string_view last = slash == std::string_view::npos ? model : model.substr(slash + 1);
  if (!is_plain_name(last) || last.ends_with(".gguf") || last.ends_with(".safetensors")) return {};
  if (slash == std::string_view::npos) return "models--" + std::string(model);
  const std::string_view org = model.substr(0, slash);
  if (!is_plain_name(org)) return {};
  return "models--" + std::string(org) + "--" + std::string(last);
}

std::vector<std::string> subdirectories(const std::string& directory) {
  std::vector<std::string> found;
  std::error_code code;
  std::filesystem::directory_iterator entries(directory, code);
  for (const std::filesystem::directory_iterator end; !code && entries != end; entries.increment(code))
    if (directory_exists(entries->path().string())) found.push_back(entries->path().string());
  std::sort(found.begin(), found.end());
  return found;
}

// The snapshot that refs/main names, or the only one there is.
Result<std::string> find_snapshot(const std::string& repository) {
  const std::string reference = repository + "/refs/main";
  const std::vector<std::string> snapshots = subdirectories(repository + "/snapshots");
  if (file_exists(reference)) {
    OCTAVO_TRY(const std::string content, read_file(reference));
    const std::string revision(trim(content));
    if (!is_plain_name(revision))
      return Error(reference + ": " + in_quotes(revision.substr(0, 80)) + " is not a revision");
    const std::string snapshot = repository + "/snapshots/" + revision;
    if (directory_exists(snapshot)) return snapshot;
    return Error(snapshot + ": the revision that refs/main names is not in the cache; download the model again",
                 ErrorKind::not_found);
  }
  if (snapshots.size() == 1) return snapshots[0];
  if (snapshots.empty())
    return Error(repository + ": has no refs/main and no snapshot; the download is not complete", ErrorKind::not_found);
  return Error(repository + ": has no refs/main and " + std::to_string(snapshots.size()) +
               " snapshots; give the path of one, such as " + snapshots[0]);
}

// Why a name that is there, or may be, cannot be a model; nothing if there is no such name.
Status check_place(const std::string& model) {
  std::error_code code;
  const std::filesystem::file_status facts = std::filesystem::status(model, code);
  if (facts.type() == std::filesystem::file_type::not_found) return {};
  if (!code && facts.type() == std::filesystem::file_type::directory) {
    const std::filesystem::directory_iterator entries(model, code);
  }
  if (code) return Error("model " + in_quotes(model) + " cannot be read: " + code.message());
  if (facts.type() == std::filesystem::file_type::directory || facts.type() == std::filesystem::file_type::regular)
    return {};
  return Error("model " + in_quotes(model) +
               " is a pipe, a socket or a device: give a directory or a .gguf file, which can be read more than once");
}

}  // namespace

Result<std::string> resolve_model_path(const std::string& model, const HubCache& cache) {
  if (model.empty()) return Error("the model's name is empty");
  if (model.find('\0') != std::string::npos) return Error("the model's name holds a NUL byte");
  OCTAVO_TRY(check_place(model));
  if (directory_exists(model) || file_exists(model)) return model;
  std::string message = "model " + in_quotes(model) + " was not found: there is no such directory or .gguf file";
  const std::string folder = hub_folder(model);
  if (!folder.empty() && cache.hub_directory.empty())
    message += ", and no Hugging Face cache is known (HF_HUB_CACHE, HF_HOME and HOME are not set)";
  if (!folder.empty() && !cache.hub_directory.empty()) {
    const std::string repository = cache.hub_directory + "/" + folder;
    if (directory_exists(repository)) return find_snapshot(repository).in("model " + in_quotes(model));
    message += ", and the Hugging Face cache has no " + repository;
  }
  return Error(message + ". Nothing is downloaded: give a path, or download the model first", ErrorKind::not_found);
}

}  // namespace octavo
