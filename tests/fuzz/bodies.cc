// Fuzz target: JSON bodies of every POST route; the first letter of the input says which. The server refuses with an
// error object or answers; it never fails, and a stream that begins ends with [DONE].
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/json.h"
#include "tests/fuzz/fuzz_server.h"
#include "tests/fuzz/require.h"

namespace {

constexpr std::array<const char*, 8> kRoutes = {
    "/v1/chat/completions", "/v1/completions", "/v1/chat/completions/render", "/v1/completions/render", "/tokenize",
    "/detokenize",          "/abort_requests", "/reset_prefix_cache"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::require;
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string request =
      "POST " + std::string(kRoutes[(data[0] - '0') % kRoutes.size()]) +
      " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
      std::string(body);
  // The sender's side stays open until the answer has come: a closed one means that the client has gone.
  const std::string answer = octavo::ask_fuzz_server(request, false);
  require(answer.starts_with("HTTP/1.1 "), "there is an answer", request);
  const int status = std::stoi(answer.substr(9, 3));
  require(status == 200 || (status >= 400 && status < 500), "the server does not fail", answer);
  const std::string_view text = std::string_view(answer).substr(answer.find("\r\n\r\n") + 4);
  if (answer.find("text/event-stream") != std::string::npos) {
    require(text.find("data: [DONE]\n\n") != std::string_view::npos, "a stream has its end", answer);
  } else if (!text.empty()) {
    const auto json = octavo::parse_json(text, "the answer");
    require(json.has_value() && (status == 200 || json->contains("error")), "an answer is JSON", answer);
  }
  return 0;
}
