// What HTTP carries, as plain values: no socket, no library's types. Names of headers are kept in lower case.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;   // percent-decoded, without the query
  std::string query;  // as it came
  HttpHeaders headers;
  std::string body;
  std::string id;      // X-Request-Id: the client's, or made up
  bool named = false;  // by the client

  std::string_view header(std::string_view lower_name) const;  // empty when absent
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HttpHeaders headers = {};
};

std::string_view status_phrase(int status);

// The whole text of an answer to a request that was not read: the connection ends with it.
std::string last_text(const HttpResponse& response);

// "%2F" -> "/"; what is no escape stays as it is.
std::string percent_decode(std::string_view text);

// Splits a request's target into path and query; the absolute form that proxies send loses its host.
void set_target(HttpRequest& request, std::string_view target);

// 32 hexadecimal digits that nobody else has.
std::string random_id();
// What a client may call its request: at most kMaxRequestId printable characters of ASCII.
constexpr std::size_t kMaxRequestId = 256;
bool is_request_id(std::string_view text);

}  // namespace octavo
