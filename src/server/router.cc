#include "server/router.h"

namespace octavo {
namespace {

std::size_t open_end(std::string_view pattern) {
  return pattern.ends_with('}') ? pattern.rfind('{') : std::string_view::npos;
}

bool matches(std::string_view pattern, std::string_view path) {
  const std::size_t end = open_end(pattern);
  if (end == std::string_view::npos) return pattern == path;
  return path.size() > end && path.substr(0, end) == pattern.substr(0, end);
}

}  // namespace

Router::Match Router::find(std::string_view method, std::string_view path) const {
  Match match;
  for (const Route& route : routes_) {
    if (!matches(route.path, path)) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) {
      if (match.route == nullptr) match.route = &route;
    }
    match.allowed += (match.allowed.empty() ? "" : ", ") + route.method + (route.method == "GET" ? ", HEAD" : "");
  }
  return match;
}

std::string_view last_part(const Route& route, std::string_view path) {
  const std::size_t end = open_end(route.path);
  return end == std::string_view::npos ? std::string_view() : path.substr(end);
}

}  // namespace octavo
