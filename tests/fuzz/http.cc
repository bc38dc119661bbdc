// Fuzz target: bytes that come over a connection. Every answer is a whole HTTP/1.1 answer, no status says that the
// server failed, and after whatever came the next client is served.
#include <cstddef>
#include <cstdint>

#include "server/http_message.h"
#include "tests/fuzz/fuzz_server.h"
#include "tests/fuzz/require.h"

namespace {

constexpr const char* kProbe = "GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::require;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string answer = octavo::ask_fuzz_server(bytes, true);
  require(answer.empty() || answer.starts_with("HTTP/1.1 "), "an answer is HTTP", answer);
  require(answer.find("HTTP/1.1 500") == std::string::npos, "no request makes the server fail", bytes);
  const std::string after = octavo::ask_fuzz_server(kProbe, false);
  require(after.starts_with("HTTP/1.1 200"), "the next client is served", bytes);

  octavo::HttpRequest request;
  octavo::set_target(request, bytes);
  require(request.path.size() + request.query.size() <= size + 1, "a target only shrinks", bytes);
  return 0;
}
