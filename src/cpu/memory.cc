#include "cpu/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace octavo::cpu {

namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// The number behind `key` at the start of a line ("MemAvailable:  24 kB", "inactive_file 4096"); an empty key: the
// first.
std::optional<std::size_t> read_number(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    if (!key.empty() && (!(words >> word) || word != key)) continue;
    std::size_t number = 0;
    if (!(words >> number)) return std::nullopt;  // "max"
    std::string unit;
    const std::size_t factor = words >> unit && unit == "kB" ? 1024 : 1;
    return number > kNoLimit / factor ? kNoLimit : number * factor;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* dropped;  // the line of memory.stat with file cache that goes when memory is short
};
constexpr GroupFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"/memory.max", "/memory.current", "inactive_file"};

// Narrows `info` by the group at mount + path and by each group above it.
void narrow(MemoryInfo& info, const std::string& mount, std::string path, const GroupFiles& files) {
  for (;;) {
    const std::string folder = mount + (path == "/" ? "" : path);
    const auto limit = read_number(folder + files.limit, "");
    const auto usage = read_number(folder + files.usage, "");
    if (limit && usage) {
      const std::size_t used =
          *usage - std::min(*usage, read_number(folder + "/memory.stat", files.dropped).value_or(0));
      info.total_bytes = std::min(info.total_bytes, *limit);
      info.available_bytes = std::min(info.available_bytes, *limit - std::min(*limit, used));
    }
    if (path.empty() || path == "/") return;
    path.resize(path.find_last_of('/'));
  }
}

// Lines of /proc/self/cgroup: "4:memory:/path" (v1), "0::/path" (v2). Inside a container the path may not exist below
// its mount; the walk upwards then still finds the mount's own limit.
void narrow_by_groups(MemoryInfo& info, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") narrow(info, root + "/sys/fs/cgroup", path, kVersion2);
    if (controllers.find(",memory,") != std::string::npos)
      narrow(info, root + "/sys/fs/cgroup/memory", path, kVersion1);
  }
}

}  // namespace

MemoryInfo read_memory(const std::string& root) {
  MemoryInfo info;
  info.total_bytes = read_number(root + "/proc/meminfo", "MemTotal:").value_or(kNoLimit);
  info.available_bytes = read_number(root + "/proc/meminfo", "MemAvailable:").value_or(info.total_bytes);
  narrow_by_groups(info, root);
  return info;
}

std::size_t resident_bytes() { return read_number("/proc/self/status", "RssAnon:").value_or(0); }

}  // namespace octavo::cpu
