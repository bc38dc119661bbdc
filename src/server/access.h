// Access: who may call which route. Keys are compared in constant time; without keys everything is open. Open whatever
// happens are the page, which asks for a key by itself, and the probes that pollers send no key to; more by
// --open-route, and /metrics unless it has a key of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo {

struct AccessConfig {
  std::vector<std::string> keys = {};         // --api-key
  std::string key_file = {};                  // --api-key-file: one key a line, '#' begins a comment
  std::string metrics_key = {};               // --metrics-key
  std::vector<std::string> open_routes = {};  // --open-route
};

class Access {
 public:
  static Result<Access> create(AccessConfig config);

  // authorization: the header's value, "Bearer KEY".
  bool allows(std::string_view path, std::string_view authorization) const;
  bool guarded() const { return !keys_.empty(); }
  Status reload();  // the key file, anew; on an error the old keys stay

 private:
  explicit Access(AccessConfig config) : config_(std::move(config)) {}
  bool knows(const std::vector<std::string>& keys, std::string_view authorization) const;

  AccessConfig config_;
  std::vector<std::string> keys_;
};

}  // namespace octavo
