// Exchange: one request and its answer, as a handler sees them. No type of the HTTP library appears here.
//
// Everything but request() and open() is for the event loop's thread alone. An answer is whole (respond) or a stream
// (begin_stream, write..., finish). A stream that failed is never finished as if it were whole: the handler writes an
// error event first, or calls abort(), which breaks the connection. After the client has gone every call is harmless.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace octavo {

// What happens to an exchange while a handler works on it.
class ExchangeListener {
 public:
  virtual ~ExchangeListener() = default;
  virtual void drained() {}                                    // all that was written has left
  virtual void tick(std::chrono::steady_clock::time_point) {}  // some ten times a second
  virtual void client_gone() = 0;                              // once, and nothing after it
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual HttpRequest& request() = 0;
  virtual void drop_body() = 0;  // it was read: its memory is given back

  virtual void respond(HttpResponse response) = 0;
  virtual void begin_stream(std::string_view content_type) = 0;
  virtual void write(std::string_view data) = 0;
  virtual void finish() = 0;
  virtual void abort() = 0;

  virtual bool open() const = 0;                 // the client is there and waits for more
  virtual bool answered() const = 0;             // respond() or begin_stream() was called
  virtual std::size_t unsent_bytes() const = 0;  // written and not yet taken by the client
  // Kept until the exchange is over.
  virtual void listen(std::shared_ptr<ExchangeListener> listener) = 0;
};

// Where everything about exchanges happens: one thread.
class EventLoop {
 public:
  virtual ~EventLoop() = default;
  virtual void post(std::function<void()> work) = 0;  // from any thread
};

// Who answers. handle() is called when the whole body is there; refuse() as soon as the headers are, so that a refused
// request's body need not be read.
class HttpApp {
 public:
  virtual ~HttpApp() = default;
  virtual bool refuse(const HttpRequest& head, HttpResponse& response) = 0;
  virtual void handle(const std::shared_ptr<Exchange>& exchange) = 0;
  virtual void add_headers(const HttpRequest& request, HttpHeaders& headers) = 0;  // of every answer
  virtual void tick(std::chrono::steady_clock::time_point now) = 0;
  virtual void signal(int number) = 0;
};

}  // namespace octavo
