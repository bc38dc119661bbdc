// Connection: one client's socket: reads requests, hands each to the app, writes the answer, and so on until either
// side has enough. Lives as long as its coroutine; everything runs on the event loop's thread.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "net/stream.h"
#include "server/http_server.h"

namespace octavo {

using Clock = std::chrono::steady_clock;

class ServedExchange;
struct ReadRequest;

// What all connections of a server share.
struct ConnectionShare {
  HttpLimits limits;
  HttpApp* app = nullptr;
  std::atomic<std::size_t> buffered_bytes{0};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::unique_ptr<Stream> stream, ConnectionShare& share);

  boost::asio::awaitable<void> run();
  void tick(Clock::time_point now);  // cuts what has taken too long
  void close();
  bool busy() const { return exchange_ != nullptr; }
  void drop();  // the server goes away

  // For the exchange that is being served.
  void wake() { signal_.cancel(); }
  void break_off();  // the peer sees a broken connection

 private:
  boost::asio::awaitable<bool> open();
  boost::asio::awaitable<bool> serve_one();
  boost::asio::awaitable<bool> wait_for_request();
  void skip_empty_lines();
  boost::asio::awaitable<bool> read_request(ReadRequest& read);
  boost::asio::awaitable<bool> read_body(ReadRequest& read);
  boost::asio::awaitable<StreamError> feed(ReadRequest& read);
  boost::asio::awaitable<bool> answer(std::shared_ptr<ServedExchange> exchange);
  boost::asio::awaitable<bool> send(std::string data);
  boost::asio::awaitable<void> refuse(int status, std::string message);
  boost::asio::awaitable<void> linger();
  void watch();
  void on_readable();
  void watch_for_loss();
  void lose_client();
  void set_deadline(std::chrono::milliseconds from_now) { deadline_ = Clock::now() + from_now; }

  std::unique_ptr<Stream> stream_;
  ConnectionShare& share_;
  boost::asio::steady_timer signal_;  // never expires; cancelled to wake the writer
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<ServedExchange> exchange_;  // while one is served
  Clock::time_point deadline_ = Clock::time_point::max();
  bool reading_ = false;   // a request has begun and is not complete
  bool watching_ = false;  // a wait for the peer's next byte, or its end, is under way
  bool first_ = true;
};

}  // namespace octavo
