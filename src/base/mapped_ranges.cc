#include "base/mapped_ranges.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace octavo {
namespace {

constexpr std::size_t kMaxMappings = 4096;  // shards of the largest models are a few hundred

// A row is free while begin is 0. It is taken by its begin, and can be found once it has an end.
struct MappedRange {
  std::atomic<std::uintptr_t> begin{0}, end{0};
  std::atomic<const char*> path{nullptr};
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

constinit std::array<MappedRange, kMaxMappings> mapped_ranges;

const char* path_at(std::uintptr_t address) {
  for (const MappedRange& range : mapped_ranges)
    if (range.begin <= address && address < range.end) return range.path;
  return nullptr;
}

// Only what a handler may call. What cannot be written is lost: the exit code remains.
void write_error(const char* text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void answer_bus_error(int, siginfo_t* cause, void*) {
  const bool by_access = cause->si_code == BUS_ADRERR;
  const char* path = by_access ? path_at(reinterpret_cast<std::uintptr_t>(cause->si_addr)) : nullptr;
  if (path == nullptr) {
    std::signal(SIGBUS, SIG_DFL);
    ::raise(SIGBUS);  // delivered when this returns
    return;
  }
  // Several threads may meet the end of the file at once: one tells of it, the others wait for the end of the program.
  static std::atomic_flag told;
  while (told.test_and_set()) ::pause();
  write_error("octavo: ");
  write_error(path);
  write_error(
      ": became shorter, or could not be read, while it was in use: put the whole file back, and replace files of a "
      "running model by renaming only\n");
  ::_exit(1);
}

}  // namespace

void note_mapping(const std::byte* data, std::size_t size, const std::string& path) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (MappedRange& range : mapped_ranges) {
    std::uintptr_t free = 0;
    if (range.begin != 0 || !range.begin.compare_exchange_strong(free, begin)) continue;
    char* const copy = new char[path.size() + 1];
    std::memcpy(copy, path.c_str(), path.size() + 1);
    range.path = copy;
    range.end = begin + size;
    return;
  }
}

void forget_mapping(const std::byte* data) {
  for (MappedRange& range : mapped_ranges) {
    if (range.begin != reinterpret_cast<std::uintptr_t>(data)) continue;
    range.end = 0;
    delete[] range.path.exchange(nullptr);
    range.begin = 0;
    return;
  }
}

void end_when_mapped_files_shrink() {
  struct sigaction action {};
  action.sa_sigaction = answer_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace octavo
