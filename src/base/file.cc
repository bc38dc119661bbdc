#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/mapped_ranges.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxReadBytes = std::size_t{1} << 30;  // a pipe or a device may have no end

Error system_error(const std::string& path, const char* what) {
  const int code = errno;
  return Error(path + ": " + what + ": " + std::strerror(code),
               code == ENOENT ? ErrorKind::not_found : ErrorKind::invalid);
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a pipe would wait for its writer
  if (file.fd < 0) return system_error(path, "cannot open");
  struct stat facts {};
  if (::fstat(file.fd, &facts) != 0) return system_error(path, "cannot stat");
  if (!S_ISREG(facts.st_mode)) return Error(path + ": is " + kind_of(facts.st_mode) + ", and this must be a file");
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size == 0) return MappedFile(path, nullptr, 0);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) return system_error(path, "cannot map into memory");
  MappedFile mapped(path, static_cast<const std::byte*>(data), size);
  note_mapping(mapped.data_, size, path);
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  forget_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void release_mapped(std::span<const std::byte> part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

bool file_exists(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

bool directory_exists(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

Result<std::string> read_file(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return system_error(path, "cannot open");
  std::string content;
  for (std::size_t size = 0;;) {
    if (size > kMaxReadBytes) return Error(path + ": does not end within " + std::to_string(kMaxReadBytes) + " bytes");
    content.resize(size + std::max<std::size_t>(size, 1 << 16));
    const ssize_t got = ::read(file.fd, content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path, "cannot read");
    size += static_cast<std::size_t>(got);
    if (got == 0) {
      content.resize(size);
      return content;
    }
  }
}

Status write_file(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".partial";
  const auto give_up = [&](const std::string& name, const char* what) {
    const Error failure = system_error(name, what);
    ::unlink(temporary.c_str());
    return failure;
  };
  Descriptor file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
  if (file.fd < 0) return system_error(temporary, "cannot write");
  while (!content.empty()) {
    const ssize_t written = ::write(file.fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return give_up(temporary, "cannot write");
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  // Where a disk is far away, only this tells that it is full.
  if (::close(std::exchange(file.fd, -1)) != 0) return give_up(temporary, "cannot write");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up(path, "cannot rename into place");
  return {};
}

}  // namespace octavo
