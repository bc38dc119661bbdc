#include "server/access.h"

#include <algorithm>
#include <array>

#include "base/file.h"
#include "base/strings.h"

namespace octavo {
namespace {

constexpr std::array<std::string_view, 6> kAlwaysOpen = {"/health", "/ping",    "/live",
                                                         "/ready",  "/version", "/get_load"};

// Takes as long for a wrong key as for the right one; only the length of what was given shows.
bool same_key(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference |=
        static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key.empty() ? 0 : key[i % key.size()]);
  return difference == 0;
}

Result<std::vector<std::string>> read_keys(const std::string& path) {
  std::vector<std::string> keys;
  OCTAVO_TRY(const std::string text, read_file(path).in("--api-key-file"));
  for (const std::string_view line : split(text, "\n")) {
    const std::string_view key = trim(line);
    if (!key.empty() && !key.starts_with('#')) keys.emplace_back(key);
  }
  if (keys.empty()) return Error("--api-key-file " + path + " holds no key: one a line");
  return keys;
}

}  // namespace

Result<Access> Access::create(AccessConfig config) {
  for (const std::string& key : config.keys)
    if (trim(key).empty()) return Error("--api-key is empty: leave it out to serve without keys");
  Access access(std::move(config));
  OCTAVO_TRY(access.reload());
  return access;
}

Status Access::reload() {
  std::vector<std::string> keys = config_.keys;
  if (!config_.key_file.empty()) {
    OCTAVO_TRY(const std::vector<std::string> more, read_keys(config_.key_file));
    keys.insert(keys.end(), more.begin(), more.end());
  }
  keys_ = std::move(keys);
  return {};
}

bool Access::knows(const std::vector<std::string>& keys, std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size() || lower(authorization.substr(0, kScheme.size())) != kScheme) return false;
  const std::string_view given = trim(authorization.substr(kScheme.size()));
  bool known = false;
  for (const std::string& key : keys) known |= same_key(given, key);  // all of them, always
  return known;
}

bool Access::allows(std::string_view path, std::string_view authorization) const {
  if (path == "/" || path == "/favicon.ico" || path.starts_with("/page/")) return true;  // the page holds no secrets
  if (path == "/metrics") {
    if (!config_.metrics_key.empty()) return knows({config_.metrics_key}, authorization) || knows(keys_, authorization);
    return true;
  }
  if (keys_.empty()) return true;
  if (std::find(kAlwaysOpen.begin(), kAlwaysOpen.end(), path) != kAlwaysOpen.end()) return true;
  const auto& open = config_.open_routes;
  if (std::find(open.begin(), open.end(), path) != open.end()) return true;
  return knows(keys_, authorization);
}

}  // namespace octavo
