// Url: the address of a server, as a person writes it: http://host:port/prefix, https://[::1], or host:port alone.
// Unsaid, it is where `octavo serve` listens.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo {

struct Url {
  bool tls = false;
  std::string host = "127.0.0.1";  // without brackets
  int port = 8000;
  std::string prefix = {};  // of every path: "" or "/some/where", without a slash at the end

  std::string origin() const;      // "https://[::1]:8443"
  std::string host_field() const;  // as the header Host says it: "host:port", the scheme's own port left out
  // "/v1/models" below the prefix; a prefix that ends in /v1, as clients of this API write it, is not doubled.
  std::string path(std::string_view route) const;
};

Result<Url> parse_url(std::string_view text);

}  // namespace octavo
