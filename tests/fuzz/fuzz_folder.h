// A folder for the files that a fuzz target writes: one for the process, removed at its end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/require.h"

namespace octavo {

class FuzzFolder {
 public:
  FuzzFolder() : path_((std::filesystem::temp_directory_path() / "octavo-fuzz-XXXXXX").string()) {
    require(mkdtemp(path_.data()) != nullptr, "a folder for files", path_);
  }
  ~FuzzFolder() { std::filesystem::remove_all(path_); }
  FuzzFolder(const FuzzFolder&) = delete;
  FuzzFolder& operator=(const FuzzFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file anew -> its path.
  std::string put(const std::string& name, std::string_view bytes) const {
    std::ofstream file(path(name), std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    require(file.good(), "a file can be written", path(name));
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace octavo
