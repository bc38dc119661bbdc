// HttpServer: HTTP/1.1 for thousands of connections on one thread.
//
// Kept alive, pipelined, Expect: 100-continue, HEAD. Every way to hold a connection is bounded: headers and bodies in
// bytes and in time, idle connections, readers that do not read, connections in number, unread bodies in sum. What is
// not HTTP/1 (an HTTP/2 preface, a TLS hello where TLS is not spoken) is answered 400 and closed at once. SIGHUP reads
// the certificate anew.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/exchange.h"

namespace octavo {

struct HttpLimits {
  std::size_t max_header_bytes = std::size_t{64} << 10;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  std::size_t max_buffered_bytes = std::size_t{512} << 20;  // of all bodies that are being read or worked on
  int max_connections = 4096;
  std::chrono::milliseconds header_timeout{30'000};  // from a request's first byte, and of a new connection
  std::chrono::milliseconds body_timeout{30'000};    // beyond one second for each 16 KiB that have come
  std::chrono::milliseconds reader_timeout{60'000};  // without the client taking a byte of what is written
  std::chrono::milliseconds idle_timeout{120'000};   // between two requests
};

struct HttpAddress {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: any free one
  std::string uds;  // a path: a Unix socket instead
  // TLS, with PEM files; an empty certificate: without.
  std::string cert_file = {};
  std::string key_file = {};  // empty: the key stands beside the certificate
};

class HttpServer : public EventLoop {
 public:
  // Takes the address, so that a port in use is found before a model is loaded. Nobody is listened to before run().
  static Result<std::unique_ptr<HttpServer>> bind(const HttpAddress& address, const HttpLimits& limits);

  virtual std::string describe() const = 0;  // "http://127.0.0.1:8000"
  virtual bool loopback() const = 0;         // reached from this machine only
  // Serves on this thread until stop(). `ready` runs once connections are accepted.
  virtual Status run(HttpApp& app, const std::function<void()>& ready) = 0;
  virtual void stop() = 0;  // from any thread: closes every connection
  virtual int num_connections() const = 0;
  virtual int num_exchanges() const = 0;  // requests whose answer is not written yet
};

}  // namespace octavo
