// HttpClient: HTTP/1.1 calls to one server, many at once on one thread; connections are kept and used again. Nothing
// happens outside run(), which returns when no call and no timer is left. A call that fails says so once, in a sentence
// that says where and why. It never follows a redirect and never asks again, except on a kept connection that had been
// closed before a byte of the answer came.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "client/url.h"

namespace octavo {

struct ClientConfig {
  Url server;
  std::string api_key;                                            // sent as Authorization: Bearer; empty: none
  std::vector<std::pair<std::string, std::string>> headers = {};  // of every call
  std::string ca_file = {};                                       // --ssl-ca-certs, or empty
  bool verify = true;
  std::chrono::milliseconds connect_timeout{10'000};  // for finding, reaching and TLS together
};

struct HttpCall {
  std::string method = "GET";
  std::string route;      // "/v1/models", below the server's prefix
  std::string body = {};  // JSON
};

struct ReplyHead {
  int status = 0;
  std::string content_type = {};
  std::string retry_after = {};
};

// What becomes of a call. All of it is said on the thread of run().
class CallListener {
 public:
  virtual ~CallListener() = default;
  virtual void on_head(const ReplyHead& head) = 0;
  virtual void on_body(std::string_view bytes) = 0;
  // Once, at the end. An error: there was no answer, or not all of it.
  virtual void on_end(const Status& status) = 0;
};

class HttpClient {
 public:
  using Clock = std::chrono::steady_clock;

  static Result<std::unique_ptr<HttpClient>> create(ClientConfig config);
  virtual ~HttpClient() = default;

  // Of the thread of run(), before or inside of it.
  virtual void call(HttpCall call, std::shared_ptr<CallListener> listener) = 0;
  virtual void at(Clock::time_point when, std::function<void()> work) = 0;
  virtual void run() = 0;
  // From any thread: what is under way ends with an error. Timers do not.
  virtual void cancel() = 0;
};

}  // namespace octavo
