#include "server/http_message.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>

namespace octavo {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 27> kPhrases = {{
    {100, "Continue"},
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Payload Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Entity"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Request Aborted"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
}};

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view lower_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_name) return value;
  return {};
}

std::string_view status_phrase(int status) {
  for (const auto& [code, phrase] : kPhrases)
    if (code == status) return phrase;
  return "Unknown";
}

std::string last_text(const HttpResponse& response) {
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " " + std::string(status_phrase(response.status));
  const auto header = [&](std::string_view name, const std::string& value) {
    text += "\r\n" + std::string(name) + ": " + value;
  };
  header("server", "octavo/" OCTAVO_VERSION);
  header("connection", "close");
  header("content-type", response.content_type);
  header("content-length", std::to_string(response.body.size()));
  header("x-request-id", random_id());
  for (const auto& [name, value] : response.headers) header(name, value);
  return text + "\r\n\r\n" + response.body;
}

std::string percent_decode(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
      if (high >= 0 && low >= 0) {
        result += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    result += text[i];
  }
  return result;
}

void set_target(HttpRequest& request, std::string_view target) {
  if (const std::size_t scheme = target.find("://"); scheme != std::string_view::npos && !target.starts_with("/")) {
    const std::size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  const std::size_t mark = target.find('?');
  if (mark != std::string_view::npos) request.query = std::string(target.substr(mark + 1));
  request.path = percent_decode(target.substr(0, mark));
  if (request.path.size() > 1 && request.path.ends_with('/')) request.path.pop_back();
}

std::string random_id() {
  // One generator a thread, seeded by the system: a request costs no system call.
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (int word = 0; word < 2; ++word) {
    std::uint64_t bits = random();
    for (int i = 0; i < 16; ++i, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

bool is_request_id(std::string_view text) {
  return text.size() <= kMaxRequestId &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace octavo
