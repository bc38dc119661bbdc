// ServedExchange: an Exchange over a Connection: frames what is written (Content-Length, chunks, or until the end of
// the connection for HTTP/1.0) and keeps it until the connection's writer takes it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/exchange.h"

namespace octavo {

class ServedExchange final : public Exchange {
 public:
  struct Facts {
    bool keep_alive = true;
    bool http_1_0 = false;
  };
  // wake: there is something to write. break_off: the connection is to be broken.
  ServedExchange(HttpRequest request, Facts facts, HttpApp& app, std::function<void()> wake,
                 std::function<void()> break_off);
  ~ServedExchange() override;

  HttpRequest& request() override { return request_; }
  void drop_body() override;
  void respond(HttpResponse response) override;
  void begin_stream(std::string_view content_type) override;
  void write(std::string_view data) override;
  void finish() override;
  void abort() override;
  bool open() const override { return open_; }
  bool answered() const override { return answered_; }
  std::size_t unsent_bytes() const override { return out_.size() + taken_; }
  void listen(std::shared_ptr<ExchangeListener> listener) override { listener_ = std::move(listener); }

  // Memory that the body takes of the server's share until the exchange is gone.
  void hold(std::atomic<std::size_t>& counter, std::size_t bytes);

  // The writer's side.
  std::string take();  // what is to be written now
  void taken(std::size_t left) { taken_ = left; }
  bool finished() const { return finished_; }
  bool keep_alive() const { return facts_.keep_alive; }
  // Finds out whether a client that has closed its direction is still there: the next byte is on its way, an interim
  // answer where none has begun, else that of the next token or ping. False: HTTP/1.0 knows no interim answers.
  bool probe();
  void drained();
  void tick(std::chrono::steady_clock::time_point now);
  void over();         // all was written
  void client_gone();  // or the client left

 private:
  void begin(int status, std::string_view content_type, const HttpHeaders& headers);

  HttpRequest request_;
  Facts facts_;
  HttpApp& app_;
  std::function<void()> wake_, break_off_;
  std::shared_ptr<ExchangeListener> listener_;
  std::string out_;
  std::size_t taken_ = 0;
  std::atomic<bool> open_ = true;
  bool answered_ = false;
  bool finished_ = false;
  bool head_ = false;
  bool chunked_ = false;
  std::atomic<std::size_t>* counter_ = nullptr;
  std::size_t held_bytes_ = 0;
};

}  // namespace octavo
