#include "client/http_client.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>
#include <optional>
#include <unordered_set>

#include "net/stream.h"

namespace octavo {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr std::uint32_t kMaxHeaderBytes = 256 << 10;

// A connection to the server, and what came through it and was not read yet.
struct Line {
  explicit Line(asio::io_context& context)
      : stream(plain_stream(StreamSocket(context))), buffer(kMaxHeaderBytes + kReadAtOnce) {}
  std::unique_ptr<Stream> stream;
  boost::beast::flat_buffer buffer;
  bool kept = false;  // has served a call before
};
using Parser = http::response_parser<http::string_body>;

// How an exchange ended.
struct Ending {
  Status status = {};
  bool stale = false;  // a kept connection turned out to be closed: nothing was answered
};

std::string reason_of(const error_code& error) {
  if (error == asio::error::eof || error == http::error::end_of_stream || error == http::error::partial_message)
    return "the server closed it";
  return error.message();
}

class BeastClient final : public HttpClient {
 public:
  explicit BeastClient(ClientConfig config) : config_(std::move(config)), context_(1) {}
  Status prepare();

  void call(HttpCall call, std::shared_ptr<CallListener> listener) override {
    asio::co_spawn(context_, perform(std::move(call), std::move(listener)), asio::detached);
  }
  void at(Clock::time_point when, std::function<void()> work) override;
  void run() override {
    context_.restart();
    context_.run();
  }
  void cancel() override {
    asio::post(context_, [this] {
      cancelled_ = true;
      for (Line* line : busy_) line->stream->close();
    });
  }

 private:
  asio::awaitable<void> perform(HttpCall call, std::shared_ptr<CallListener> listener);
  asio::awaitable<Status> connect(Line& line);
  asio::awaitable<error_code> reach(Line& line, const tcp::resolver::results_type& found);
  asio::awaitable<Ending> exchange(Line& line, const std::string& request, CallListener& listener);
  asio::awaitable<error_code> feed(Line& line, Parser& parser, bool& got_some);
  std::string request_text(const HttpCall& call) const;
  std::unique_ptr<Line> take_kept();
  Error unreachable(const std::string& why) const;
  Error untrusted(const std::string& why) const;
  Error broken(const std::string& why) const;

  ClientConfig config_;
  std::optional<TlsContext> tls_;
  asio::io_context context_;
  std::optional<tcp::resolver::results_type> found_;
  std::vector<std::unique_ptr<Line>> kept_;
  std::unordered_set<Line*> busy_;
  bool cancelled_ = false;  // until the next call begins
};

Status BeastClient::prepare() {
  for (const auto& [name, value] : config_.headers)
    if (name.empty() || (name + value).find_first_of("\r\n") != std::string::npos ||
        name.find_first_of(" :") != std::string::npos)
      return Error("a header cannot be named or hold that: give NAME=VALUE");
  if (config_.api_key.find_first_of("\r\n") != std::string::npos) return Error("--api-key holds the end of a line");
  if (config_.server.tls) {
    OCTAVO_TRY(tls_, TlsContext::client(config_.ca_file, config_.verify));
  }
  raise_file_limit();
  return {};
}

Error BeastClient::unreachable(const std::string& why) const {
  return Error(
      "cannot reach " + config_.server.origin() + " (" + why + "): is a server running there? --base-url names another",
      ErrorKind::unavailable);
}

Error BeastClient::untrusted(const std::string& why) const {
  return Error("cannot speak TLS with " + config_.server.origin() + ": " + why +
               "; --ssl-ca-certs FILE names whom to believe, http:// does without");
}

Error BeastClient::broken(const std::string& why) const {
  if (cancelled_) return Error("the call was stopped", ErrorKind::unavailable);
  return Error("the connection to " + config_.server.origin() + " broke before the whole answer had come (" + why + ")",
               ErrorKind::unavailable);
}

void BeastClient::at(Clock::time_point when, std::function<void()> work) {
  const auto timer = std::make_shared<asio::steady_timer>(context_, when);
  timer->async_wait([timer, work = std::move(work)](const error_code& error) {
    if (!error) work();
  });
}

std::string BeastClient::request_text(const HttpCall& call) const {
  std::string text = call.method + " " + config_.server.path(call.route) +
                     " HTTP/1.1\r\nHost: " + config_.server.host_field() +
                     "\r\nUser-Agent: octavo/" OCTAVO_VERSION "\r\nAccept: */*\r\n";
  if (!config_.api_key.empty()) text += "Authorization: Bearer " + config_.api_key + "\r\n";
  for (const auto& [name, value] : config_.headers) text += name + ": " + value + "\r\n";
  if (!call.body.empty())
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(call.body.size()) + "\r\n";
  return text + "\r\n" + call.body;
}

std::unique_ptr<Line> BeastClient::take_kept() {
  if (kept_.empty()) return nullptr;
  std::unique_ptr<Line> line = std::move(kept_.back());
  kept_.pop_back();
  return line;
}

asio::awaitable<error_code> BeastClient::reach(Line& line, const tcp::resolver::results_type& found) {
  error_code error = asio::error::host_not_found;
  for (const auto& entry : found) {
    StreamSocket& socket = line.stream->socket();
    error_code ignored;
    socket.close(ignored);
    const asio::generic::stream_protocol::endpoint endpoint(entry.endpoint());
    std::tie(error) = co_await socket.async_connect(endpoint, kQuietly);
    if (!error) socket.set_option(tcp::no_delay(true), ignored);
    if (!error || cancelled_) break;
  }
  co_return error;
}

// Everything until the first byte of a request, within the bound.
asio::awaitable<Status> BeastClient::connect(Line& line) {
  asio::steady_timer bound(context_, config_.connect_timeout);
  bool late = false;
  tcp::resolver resolver(context_);
  bound.async_wait([&](const error_code& error) {
    if (error) return;
    late = true;
    resolver.cancel();
    line.stream->close();
  });
  error_code error;
  if (!found_) {
    const std::string port = std::to_string(config_.server.port);
    auto [failure, found] = co_await resolver.async_resolve(config_.server.host, port, kQuietly);
    error = failure;
    if (!failure) found_ = std::move(found);
  }
  if (!error) error = co_await reach(line, *found_);
  std::string why = error ? error.message() : "", insecure;
  if (!error && tls_) {
    line.stream = tls_stream(std::move(line.stream->socket()), TlsSession::client(*tls_, config_.server.host));
    const bool opened = co_await line.stream->open();
    if (!opened) insecure = line.stream->why();
  }
  bound.cancel();
  // The timer's handler speaks of what lives here: it has to have run.
  co_await asio::post(context_, asio::use_awaitable);
  if (late) why = "no answer within " + std::to_string(config_.connect_timeout.count() / 1000) + " s";
  if (cancelled_) co_return broken("");
  if (!why.empty()) co_return unreachable(why);
  if (!insecure.empty()) co_return untrusted(insecure);
  co_return Status();
}

asio::awaitable<error_code> BeastClient::feed(Line& line, Parser& parser, bool& got_some) {
  for (;;) {
    error_code error = http::error::need_more;
    if (line.buffer.size() > 0) line.buffer.consume(parser.put(line.buffer.data(), error));
    if (error != http::error::need_more) co_return error;
    const std::size_t room = boost::beast::read_size(line.buffer, kReadAtOnce);
    if (room == 0) co_return http::error::buffer_overflow;
    const auto [failure, count] = co_await line.stream->read_some(line.buffer.prepare(room));
    if (failure == asio::error::eof && got_some) {  // for an answer that ends with its connection
      parser.put_eof(error);
      co_return error;
    }
    if (failure) co_return failure;
    line.buffer.commit(count);
    got_some = true;
  }
}

asio::awaitable<Ending> BeastClient::exchange(Line& line, const std::string& request, CallListener& listener) {
  error_code error;
  for (std::size_t sent = 0; sent < request.size() && !error;) {
    const auto [failure, count] =
        co_await line.stream->write_some(asio::buffer(request.data() + sent, request.size() - sent));
    error = failure;
    sent += count;
  }
  // A server may answer before it has read all and close: what it said is worth reading.
  const error_code unsent = error;
  std::optional<Parser> parser;
  bool got_some = line.buffer.size() > 0;
  for (int status = 100; status < 200;) {  // beyond 100 Continue and its like
    parser.emplace();
    parser->header_limit(kMaxHeaderBytes);
    parser->body_limit(std::numeric_limits<std::uint64_t>::max());
    error = co_await feed(line, *parser, got_some);
    if (error) {
      Ending ending{.status = broken(reason_of(unsent ? unsent : error))};
      ending.stale = line.kept && !got_some && !cancelled_;
      co_return ending;
    }
    status = parser->get().result_int();
  }
  const auto& head = parser->get();
  const auto field = [&](http::field name) { return std::string(head[name]); };
  listener.on_head(
      {static_cast<int>(head.result_int()), field(http::field::content_type), field(http::field::retry_after)});
  for (bool over = false; !over;) {
    over = parser->is_done();
    const std::string bytes = std::exchange(parser->get().body(), {});
    if (!bytes.empty()) listener.on_body(bytes);
    if (over) break;
    error = co_await feed(line, *parser, got_some);
    if (error && !parser->is_done()) {
      Ending ending{.status = broken(reason_of(error))};
      co_return ending;
    }
  }
  const bool reusable = !unsent && parser->keep_alive() && line.buffer.size() == 0;
  if (!reusable) line.stream->close();
  co_return Ending();
}

asio::awaitable<void> BeastClient::perform(HttpCall call, std::shared_ptr<CallListener> listener) {
  cancelled_ = false;
  const std::string request = request_text(call);
  for (;;) {
    std::unique_ptr<Line> line = take_kept();
    const bool fresh = line == nullptr;
    if (fresh) line = std::make_unique<Line>(context_);
    busy_.insert(line.get());
    if (fresh) {
      const Status connected = co_await connect(*line);
      if (!connected) {
        busy_.erase(line.get());
        listener->on_end(connected);
        co_return;
      }
    }
    const Ending ending = co_await exchange(*line, request, *listener);
    busy_.erase(line.get());
    if (ending.stale) continue;
    line->kept = true;
    // Before the listener is told, whose next call can use it.
    if (ending.status && line->stream->socket().is_open()) kept_.push_back(std::move(line));
    listener->on_end(ending.status);
    co_return;
  }
}

}  // namespace

Result<std::unique_ptr<HttpClient>> HttpClient::create(ClientConfig config) {
  try {
    auto client = std::make_unique<BeastClient>(std::move(config));
    OCTAVO_TRY(client->prepare());
    return std::unique_ptr<HttpClient>(std::move(client));
  } catch (const std::exception& failure) {
    return Error(std::string("cannot start a client: ") + failure.what(), ErrorKind::unavailable);
  }
}

}  // namespace octavo
