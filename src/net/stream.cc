#include "net/stream.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace octavo {
namespace {

namespace asio = boost::asio;
constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kRecord = std::size_t{16} << 10;  // text of one TLS record

class PlainStream final : public Stream {
 public:
  using Stream::Stream;

  asio::awaitable<bool> open() override { co_return true; }
  asio::awaitable<Moved> read_some(asio::mutable_buffer into) override {
    return socket_.async_read_some(into, kQuietly);
  }
  asio::awaitable<Moved> write_some(asio::const_buffer from) override {
    return socket_.async_write_some(from, kQuietly);
  }
  std::size_t read_now(asio::mutable_buffer into, StreamError& error) override {
    return socket_.read_some(asio::mutable_buffers_1(into), error);
  }
  void write_now(std::string_view data) override {
    StreamError ignored;
    socket_.write_some(asio::buffer(data), ignored);
  }
  void end_writing() override {
    StreamError ignored;
    socket_.shutdown(StreamSocket::shutdown_send, ignored);
  }
};

// Only the writer's side touches the socket to send; what a read would like to send (an alert, an answer to new keys)
// goes with the next write.
class TlsStream final : public Stream {
 public:
  TlsStream(StreamSocket socket, TlsSession session, asio::any_io_executor helper)
      : Stream(std::move(socket)), session_(std::move(session)), helper_(std::move(helper)) {}

  asio::awaitable<bool> open() override {
    for (;;) {
      const TlsSession::State state = co_await handshake();
      std::string bytes = session_.send();
      const StreamError sent = co_await flush(std::move(bytes));
      if (state == TlsSession::State::failed) why_ = session_.why();
      if (state == TlsSession::State::done || state == TlsSession::State::failed)
        co_return state == TlsSession::State::done && !sent;
      StreamError error = sent;
      if (!error && state == TlsSession::State::wants_bytes) error = co_await more();
      if (!error && state == TlsSession::State::wants_bytes) continue;
      why_ = "the connection ended while TLS was agreed on";
      co_return false;
    }
  }

  asio::awaitable<Moved> read_some(asio::mutable_buffer into) override {
    for (;;) {
      StreamError error;
      const std::size_t count = take(into, error);
      if (error != asio::error::would_block) co_return Moved(error, count);
      error = co_await more();
      if (error) co_return Moved(error, 0);
    }
  }

  asio::awaitable<Moved> write_some(asio::const_buffer from) override {
    const std::size_t count = std::min(from.size(), kRecord);
    const TlsSession::State state = session_.write({static_cast<const char*>(from.data()), count});
    std::string bytes = session_.send();
    StreamError error = co_await flush(std::move(bytes));
    if (!error && state != TlsSession::State::done) error = asio::error::connection_aborted;
    co_return Moved(error, error ? 0 : count);
  }

  std::size_t read_now(asio::mutable_buffer into, StreamError& error) override {
    std::size_t count = take(into, error);
    if (error != asio::error::would_block) return count;
    error = pull();
    return error ? 0 : take(into, error);
  }

  void write_now(std::string_view data) override {
    session_.write(data);
    send_now();
  }

  void end_writing() override {
    if (!away_) {
      session_.say_goodbye();
      send_now();
    }
    StreamError ignored;
    socket_.shutdown(StreamSocket::shutdown_send, ignored);
  }

  std::string why() const override { return why_; }
  bool peer_speaks_http() const override { return session_.peer_speaks_http(); }

 private:
  asio::awaitable<TlsSession::State> handshake() {
    if (!helper_) co_return session_.handshake();
    away_ = true;
    const TlsSession::State state = co_await asio::co_spawn(helper_, handshake_here(), asio::use_awaitable);
    away_ = false;
    co_return state;
  }
  asio::awaitable<TlsSession::State> handshake_here() { co_return session_.handshake(); }

  // Text that has come already; would_block where there is none.
  std::size_t take(asio::mutable_buffer into, StreamError& error) {
    std::size_t count = 0;
    error = {};
    switch (session_.read(static_cast<char*>(into.data()), into.size(), count)) {
      case TlsSession::State::done:
        break;
      case TlsSession::State::wants_bytes:
        error = asio::error::would_block;
        break;
      case TlsSession::State::closed:
        error = asio::error::eof;
        break;
      case TlsSession::State::failed:
        error = asio::error::connection_reset;
        break;
    }
    return count;
  }

  // Bytes that the socket holds, to the session. The buffer lives here and not as long as the connection.
  StreamError pull() {
    std::array<char, kRecord> bytes;
    StreamError error;
    const std::size_t count = socket_.read_some(asio::buffer(bytes), error);
    if (!error) session_.receive({bytes.data(), count});
    return error;
  }

  asio::awaitable<StreamError> more() {
    for (;;) {
      const auto [waited] = co_await socket_.async_wait(StreamSocket::wait_read, kQuietly);
      if (waited) co_return waited;
      const StreamError error = pull();
      if (error != asio::error::would_block && error != asio::error::try_again) co_return error;
    }
  }

  asio::awaitable<StreamError> flush(std::string bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto [error, count] =
          co_await socket_.async_write_some(asio::buffer(bytes.data() + sent, bytes.size() - sent), kQuietly);
      if (error) co_return error;
      sent += count;
    }
    co_return StreamError();
  }

  void send_now() {
    StreamError ignored;
    const std::string bytes = session_.send();
    if (!bytes.empty()) socket_.write_some(asio::buffer(bytes), ignored);
  }

  TlsSession session_;
  asio::any_io_executor helper_;
  bool away_ = false;  // another thread has the session
  std::string why_;
};

}  // namespace

void Stream::close() {
  StreamError ignored;
  socket_.close(ignored);
}

std::unique_ptr<Stream> plain_stream(StreamSocket socket) { return std::make_unique<PlainStream>(std::move(socket)); }

std::unique_ptr<Stream> tls_stream(StreamSocket socket, TlsSession session, asio::any_io_executor helper) {
  StreamError ignored;
  socket.non_blocking(true, ignored);
  return std::make_unique<TlsStream>(std::move(socket), std::move(session), std::move(helper));
}

void raise_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace octavo
