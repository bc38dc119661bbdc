#include "client/url.h"

#include <algorithm>

#include "base/strings.h"

namespace octavo {
namespace {

std::string bracketed(const std::string& host) { return host.find(':') == std::string::npos ? host : "[" + host + "]"; }

Error bad_url(std::string_view text, const std::string& why) {
  return Error(in_quotes(text) + " is not the address of a server: " + why +
               "; write one such as http://127.0.0.1:8000");
}

}  // namespace

std::string Url::origin() const {
  return (tls ? "https://" : "http://") + bracketed(host) + ":" + std::to_string(port);
}

std::string Url::host_field() const {
  return port == (tls ? 443 : 80) ? bracketed(host) : bracketed(host) + ":" + std::to_string(port);
}

std::string Url::path(std::string_view route) const {
  constexpr std::string_view kVersion = "/v1";
  if (prefix.ends_with(kVersion)) {
    if (route.starts_with("/v1/")) return prefix + std::string(route.substr(kVersion.size()));
    return prefix.substr(0, prefix.size() - kVersion.size()) + std::string(route);  // /tokenize stands beside /v1
  }
  return prefix + std::string(route);
}

Result<Url> parse_url(std::string_view text) {
  Url url;
  std::string_view rest = trim(text);
  if (const std::size_t mark = rest.find("://"); mark != std::string_view::npos) {
    const std::string scheme = lower(rest.substr(0, mark));
    if (scheme != "http" && scheme != "https") return bad_url(text, "it begins with neither http:// nor https://");
    url.tls = scheme == "https";
    rest.remove_prefix(mark + 3);
  }
  const std::string_view authority = rest.substr(0, std::min(rest.find_first_of("/?#"), rest.size()));
  rest.remove_prefix(authority.size());
  if (rest.find_first_of("?# ") != std::string_view::npos) return bad_url(text, "it has more than a path");
  for (const char c : rest)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f)
      return bad_url(text, "its path has a character that no path has");
  while (rest.ends_with('/')) rest.remove_suffix(1);
  url.prefix = std::string(rest);

  std::string_view host = authority, port;
  if (authority.starts_with('[')) {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return bad_url(text, "the bracket is not closed");
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
    if (!port.empty() && port[0] != ':') return bad_url(text, "after ] comes a colon and a port, or nothing");
    if (port == ":") return bad_url(text, "its port is empty");
    if (!port.empty()) port.remove_prefix(1);
  } else if (const std::size_t colon = authority.find(':'); colon != std::string_view::npos) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
    if (port.empty()) return bad_url(text, "its port is empty");
  }
  if (host.find('@') != std::string_view::npos) return bad_url(text, "a name and password have no place in it");
  if (host.empty()) return bad_url(text, "it names no host");
  for (const char c : host)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f)
      return bad_url(text, "its host has a character that no host has");
  url.host = std::string(host);
  url.port = url.tls ? 443 : 80;
  if (!port.empty()) {
    const auto number = parse_int(port);
    if (!number || *number < 1 || *number > 65535) return bad_url(text, in_quotes(port) + " is not a port");
    url.port = static_cast<int>(*number);
  }
  return url;
}

}  // namespace octavo
