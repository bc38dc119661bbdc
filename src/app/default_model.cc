#include "app/default_model.h"

#include "base/file.h"

namespace octavo {

Result<std::string> default_model_path(const std::string& octavo_cache) {
  const std::string path = octavo_cache + "/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (file_exists(path)) return path;
  return Error("no MODEL was given and the default one is not at " + path + ": scripts/demo fetches it",
               ErrorKind::not_found);
}

}  // namespace octavo
