#include "server/connection.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <exception>

#include "base/log.h"
#include "base/strings.h"
#include "server/errors.h"
#include "server/served_exchange.h"

namespace octavo {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);

constexpr std::size_t kMaxPipelined = std::size_t{64} << 10;  // bytes of later requests that are read ahead
constexpr std::size_t kLingerBytes = std::size_t{4} << 20;    // of an unread body, so that its sender reads our answer
constexpr std::size_t kSmallBody = std::size_t{64} << 10;     // is read even if the request is refused
constexpr auto kLingerTime = std::chrono::milliseconds(2000);
constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr std::size_t kSlowestBytesPerSecond = std::size_t{16} << 10;

int status_of(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  return error == http::error::body_limit ? 413 : 400;
}

bool is_http_error(const error_code& error) {
  return error && error.category() == http::make_error_code(http::error::bad_method).category() &&
         error != http::error::end_of_stream && error != http::error::partial_message;
}

std::string too_large(const HttpLimits& limits) {
  return "the request's body is larger than " + std::to_string(limits.max_body_bytes) + " bytes";
}

std::string_view plain(boost::beast::string_view text) { return {text.data(), text.size()}; }

// A body in a form that is not read must not pass for one that is empty, nor its bytes for the next request.
std::optional<ApiError> refuse_coding(const HttpRequest& head) {
  const std::string transfer = lower(head.header("transfer-encoding"));
  if (!transfer.empty() && transfer != "chunked")
    return ApiError{.status = 501, .message = "of Transfer-Encoding only chunked is known"};
  const std::string content = lower(head.header("content-encoding"));
  if (!content.empty() && content != "identity")
    return ApiError{.status = 415, .message = "of Content-Encoding nothing is known: send the body as it is"};
  return std::nullopt;
}

constexpr const char* kTooMuch = "the server holds as many bytes of requests as it may; try again later";

}  // namespace

struct ReadRequest {
  http::request_parser<http::string_body> parser;
  HttpRequest request;
  ServedExchange::Facts facts;
  std::size_t body_bytes = 0;
  bool refused = false;
  HttpResponse refusal;

  void take_head() {
    const auto& message = parser.get();
    const boost::beast::string_view method = message.method_string();
    request.method = std::string(method);
    set_target(request, std::string_view(message.target().data(), message.target().size()));
    for (const auto& field : message) {
      const boost::beast::string_view name = field.name_string(), value = field.value();
      request.headers.emplace_back(lower(plain(name)), std::string(value));
    }
    const std::string_view id = request.header("x-request-id");
    request.named = !id.empty() && is_request_id(id);  // else no header could hold it
    request.id = request.named ? std::string(id) : random_id();
    facts.keep_alive = message.keep_alive();
    facts.http_1_0 = message.version() == 10;
  }
};

Connection::Connection(std::unique_ptr<Stream> stream, ConnectionShare& share)
    : stream_(std::move(stream)),
      share_(share),
      signal_(stream_->socket().get_executor(), Clock::time_point::max()),
      buffer_(share.limits.max_header_bytes + 2 * kMaxPipelined) {}

asio::awaitable<void> Connection::run() {
  const std::shared_ptr<Connection> self = shared_from_this();
  try {
    bool usable = co_await open();
    while (usable) {
      usable = co_await serve_one();
      first_ = false;
    }
  } catch (const std::exception& failure) {
    log::error("connection broken", {{"why", failure.what()}});
  }
  if (exchange_) std::exchange(exchange_, nullptr)->client_gone();
  close();
}

asio::awaitable<bool> Connection::open() {
  set_deadline(share_.limits.header_timeout);
  const bool opened = co_await stream_->open();
  if (opened) co_return true;
  if (stream_->peer_speaks_http()) {
    stream_ = plain_stream(std::move(stream_->socket()));
    std::string message = "this port speaks https: write https:// in the address";
    co_await refuse(400, std::move(message));
  }
  co_return false;
}

asio::awaitable<bool> Connection::serve_one() {
  const bool begun = co_await wait_for_request();
  if (!begun) co_return false;
  ReadRequest read;
  const bool complete = co_await read_request(read);
  reading_ = false;
  deadline_ = Clock::time_point::max();
  if (!complete) co_return false;

  auto exchange = std::make_shared<ServedExchange>(
      std::move(read.request), read.facts, *share_.app,
      [self = weak_from_this()] {
        if (const auto connection = self.lock()) connection->wake();
      },
      [self = weak_from_this()] {
        if (const auto connection = self.lock()) connection->break_off();
      });
  exchange->hold(share_.buffered_bytes, exchange->request().body.size());
  exchange_ = exchange;
  watch();
  if (read.refused) {
    exchange->respond(std::move(read.refusal));
  } else {
    try {
      share_.app->handle(exchange);
    } catch (const std::exception& failure) {
      log::error("request failed", {{"id", exchange->request().id}, {"why", failure.what()}});
      if (exchange->answered())
        exchange->abort();
      else
        exchange->respond(error_response({.status = 500, .message = "the server failed on this request"}));
    }
  }
  co_return co_await answer(std::move(exchange));
}

asio::awaitable<bool> Connection::wait_for_request() {
  set_deadline(first_ ? share_.limits.header_timeout : share_.limits.idle_timeout);
  for (skip_empty_lines(); buffer_.size() == 0; skip_empty_lines()) {
    const auto [error, count] = co_await stream_->read_some(buffer_.prepare(8192));
    if (error) co_return false;
    buffer_.commit(count);
  }
  co_return true;
}

// Some clients send one behind a body.
void Connection::skip_empty_lines() {
  const auto bytes = static_cast<const char*>(buffer_.data().data());
  std::size_t count = 0;
  while (count + 1 < buffer_.size() && bytes[count] == '\r' && bytes[count + 1] == '\n') count += 2;
  buffer_.consume(count);
}

// Gives the parser what the buffer holds, and what comes after it, until it has made one step.
asio::awaitable<error_code> Connection::feed(ReadRequest& read) {
  for (;;) {
    error_code error = http::error::need_more;
    if (buffer_.size() > 0) buffer_.consume(read.parser.put(buffer_.data(), error));
    if (error != http::error::need_more) co_return error;
    const std::size_t room = boost::beast::read_size(buffer_, kReadAtOnce);
    if (room == 0) co_return http::error::buffer_overflow;
    const auto [failure, count] = co_await stream_->read_some(buffer_.prepare(room));
    if (failure) co_return failure;
    buffer_.commit(count);
  }
}

// False: the connection is of no more use; whatever could be said was said.
asio::awaitable<bool> Connection::read_request(ReadRequest& read) {
  reading_ = true;
  set_deadline(share_.limits.header_timeout);
  read.parser.header_limit(static_cast<std::uint32_t>(share_.limits.max_header_bytes));
  read.parser.body_limit(share_.limits.max_body_bytes);
  const error_code error = co_await feed(read);
  if (error && !is_http_error(error)) co_return false;
  if (error) {
    const int status = status_of(error);
    std::string message = "this is not an HTTP/1.1 request: " + error.message();
    if (status == 431) message = "the request's headers are too large";
    if (status == 413) message = too_large(share_.limits);
    co_await refuse(status, std::move(message));
    co_return false;
  }
  read.take_head();
  if (const auto refused = refuse_coding(read.request)) {
    std::string message = refused->message;
    co_await refuse(refused->status, std::move(message));
    co_return false;
  }
  const std::uint64_t announced = read.parser.content_length_remaining().value_or(0);
  if (share_.buffered_bytes.load() + announced > share_.limits.max_buffered_bytes) {
    std::string message = kTooMuch;
    co_await refuse(503, std::move(message));
    co_return false;
  }
  read.refused = share_.app->refuse(read.request, read.refusal);
  const bool expects = !read.request.header("expect").empty();
  if (read.refused && !read.parser.is_done() && (expects || announced > kSmallBody || read.parser.chunked())) {
    read.facts.keep_alive = false;  // the body is not read
    co_return true;
  }
  if (expects && read.parser.get().version() >= 11) {
    if (lower(read.request.header("expect")) != "100-continue") {
      std::string message = "of Expect only 100-continue is known";
      co_await refuse(417, std::move(message));
      co_return false;
    }
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool sent = co_await send(std::move(go_on));
    if (!sent) co_return false;
  }
  co_return co_await read_body(read);
}

asio::awaitable<bool> Connection::read_body(ReadRequest& read) {
  const Clock::time_point begun = Clock::now();
  std::size_t counted = 0;
  bool whole = true;
  while (!read.parser.is_done()) {
    deadline_ =
        begun + share_.limits.body_timeout + std::chrono::milliseconds(1000 * read.body_bytes / kSlowestBytesPerSecond);
    const error_code error = co_await feed(read);
    read.body_bytes = read.parser.get().body().size();
    share_.buffered_bytes.fetch_add(read.body_bytes - counted);
    counted = read.body_bytes;
    if (error == http::error::body_limit) {
      std::string message = too_large(share_.limits);
      co_await refuse(413, std::move(message));
      whole = false;
    } else if (is_http_error(error)) {
      std::string message = "the request's body is damaged: " + error.message();
      co_await refuse(400, std::move(message));
      whole = false;
    } else if (error) {
      whole = false;
    } else if (share_.buffered_bytes.load() > share_.limits.max_buffered_bytes) {
      std::string message = kTooMuch;
      co_await refuse(503, std::move(message));
      whole = false;
    }
    if (!whole) break;
  }
  share_.buffered_bytes.fetch_sub(counted);
  if (whole) read.request.body = std::move(read.parser.get().body());
  co_return whole;
}

// Writes what the exchange holds until it is finished. True: the connection can take another request.
asio::awaitable<bool> Connection::answer(std::shared_ptr<ServedExchange> exchange) {
  while (exchange->open() && stream_->socket().is_open()) {
    std::string data = exchange->take();
    if (!data.empty()) {
      const bool sent = co_await send(std::move(data));
      if (!sent) break;
      if (exchange->open()) exchange->drained();
      continue;
    }
    if (exchange->finished()) break;
    co_await signal_.async_wait(kQuietly);
  }
  exchange_.reset();
  deadline_ = Clock::time_point::max();
  if (!exchange->open() || !exchange->finished() || !stream_->socket().is_open()) {
    exchange->client_gone();
    co_return false;
  }
  exchange->over();
  if (exchange->keep_alive()) co_return true;
  co_await linger();
  co_return false;
}

asio::awaitable<bool> Connection::send(std::string data) {
  const Clock::time_point before = deadline_;
  for (std::size_t sent = 0; sent < data.size();) {
    set_deadline(share_.limits.reader_timeout);
    const auto [error, count] = co_await stream_->write_some(asio::buffer(data.data() + sent, data.size() - sent));
    if (error) co_return false;
    sent += count;
    if (exchange_) exchange_->taken(data.size() - sent);
  }
  deadline_ = before;
  co_return true;
}

// An answer to what is no request, or to a body that is not read any further.
asio::awaitable<void> Connection::refuse(int status, std::string message) {
  ApiError error{.status = status, .message = std::move(message), .retry_after = status == 503 ? 1 : 0};
  ServedExchange exchange(
      {}, {.keep_alive = false, .http_1_0 = false}, *share_.app, [] {}, [] {});
  exchange.request().id = random_id();
  exchange.respond(error_response(error));
  const bool sent = co_await send(exchange.take());
  exchange.over();
  if (sent) co_await linger();
}

// Bytes that nobody read would make the kernel reset the connection, and the peer lose our answer.
asio::awaitable<void> Connection::linger() {
  stream_->end_writing();
  set_deadline(kLingerTime);
  reading_ = false;
  buffer_.clear();
  for (std::size_t total = 0; total < kLingerBytes;) {
    const auto [error, count] = co_await stream_->read_some(buffer_.prepare(kMaxPipelined));
    if (error) break;
    total += count;
  }
}

// While a request is worked on, the next byte or the end of the connection is waited for: a client that has gone is
// noticed at once. Bytes are the beginning of the next request.
void Connection::watch() {
  if (watching_ || buffer_.size() >= kMaxPipelined) return;
  watching_ = true;
  stream_->socket().async_wait(StreamSocket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->watching_ = false;
    if (!error && self->exchange_) self->on_readable();
  });
}

void Connection::on_readable() {
  error_code error;
  const std::size_t count = stream_->read_now(buffer_.prepare(8192), error);
  if (error == asio::error::would_block || error == asio::error::try_again) return watch();
  if (!error) {
    buffer_.commit(count);
    return watch();
  }
  if (error == asio::error::eof && exchange_->probe()) return watch_for_loss();
  lose_client();
}

// The client has sent all that it ever will. It may have gone, or have closed its own direction alone and wait for the
// answer: which of the two, its system says by how it takes the next byte that we write.
void Connection::watch_for_loss() {
  watching_ = true;
  stream_->socket().async_wait(StreamSocket::wait_error, [self = shared_from_this()](const error_code& error) {
    self->watching_ = false;
    if (!error && self->exchange_) self->lose_client();
  });
}

void Connection::lose_client() {
  const std::shared_ptr<ServedExchange> exchange = exchange_;
  close();
  exchange->client_gone();
  wake();
}

void Connection::tick(Clock::time_point now) {
  if (exchange_) std::shared_ptr(exchange_)->tick(now);
  if (now < deadline_) return;
  if (reading_) {
    // Best effort: who sends so slowly may not read either.
    stream_->write_now(last_text(error_response({.status = 408, .message = "the request did not come in time"})));
  }
  if (!exchange_) stream_->end_writing();
  close();
  wake();
}

void Connection::break_off() {
  error_code ignored;
  stream_->socket().set_option(asio::socket_base::linger(true, 0), ignored);
  close();
  wake();
}

void Connection::drop() {
  close();
  if (const auto exchange = exchange_) exchange->client_gone();
}

void Connection::close() { stream_->close(); }

}  // namespace octavo
