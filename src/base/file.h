// Files: read whole, mapped read-only, or written so that a reader never sees half of one.
// This is the one place outside the CUDA wing that may differ by operating system.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo {

// A file mapped read-only. The bytes stay valid as long as the object lives, and the file keeps its length: reading
// what a shorter one no longer has ends the program with a sentence (base/mapped_ranges.h).
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Tells the kernel that these bytes of a mapped file were copied and are hardly needed from it again.
void release_mapped(std::span<const std::byte> part);

bool file_exists(const std::string& path);  // a regular file that can be named
bool directory_exists(const std::string& path);
Result<std::string> read_file(const std::string& path);
Status write_file(const std::string& path, std::string_view content);  // a temporary file, then a rename

}  // namespace octavo
