#include "server/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "base/log.h"
#include "server/connection.h"
#include "server/errors.h"

namespace octavo {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;
constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr int kAcceptsAtOnce = 64;

// main keeps Ctrl-C for a chat's sake; here it ends a server that loads, and is a signal like others to one that runs.
void let_interrupts_through() {
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupts, nullptr);
}

class BeastServer final : public HttpServer {
 public:
  explicit BeastServer(const HttpLimits& limits) : context_(1), acceptor_(context_), signals_(context_) {
    share_.limits = limits;
  }
  ~BeastServer() override {
    if (!uds_.empty()) ::unlink(uds_.c_str());
  }

  Status load_certificate(const HttpAddress& address);
  Status bind_tcp(const HttpAddress& address);
  Status bind_uds(const std::string& path);

  std::string describe() const override { return description_; }
  bool loopback() const override { return loopback_; }
  Status run(HttpApp& app, const std::function<void()>& ready) override;
  void stop() override {
    asio::post(context_, [this] { shut_down(); });
  }
  void post(std::function<void()> work) override { asio::post(context_, std::move(work)); }
  int num_connections() const override { return static_cast<int>(connections_.size()); }
  int num_exchanges() const override {
    return static_cast<int>(std::count_if(connections_.begin(), connections_.end(),
                                          [](const Connection* connection) { return connection->busy(); }));
  }

 private:
  asio::awaitable<void> accept();
  void welcome(StreamSocket socket);
  asio::awaitable<void> serve(std::shared_ptr<Connection> connection);
  asio::awaitable<void> tick();
  asio::awaitable<void> wait_for_signals();
  void turn_away(StreamSocket socket);
  void renew_certificate();
  void shut_down();

  ConnectionShare share_;  // outlives what the context still holds
  asio::io_context context_;
  Acceptor acceptor_;
  asio::signal_set signals_;
  std::unordered_set<Connection*> connections_;
  asio::thread_pool handshakes_{1};  // goes before the context
  std::optional<TlsContext> tls_;    // of connections to come
  HttpAddress address_;
  std::string description_;
  std::string uds_;
  bool loopback_ = true;
  bool stopped_ = false;
};

Status BeastServer::load_certificate(const HttpAddress& address) {
  address_ = address;
  if (address.cert_file.empty() && address.key_file.empty()) return {};
  OCTAVO_TRY(tls_, TlsContext::server(address.cert_file, address.key_file));
  if (tls_->out_of_date())
    log::warn("certificate out of date", {{"file", address.cert_file}, {"effect", "clients will refuse it"}});
  return {};
}

// A new file is used by connections that come after it; a bad one changes nothing.
void BeastServer::renew_certificate() {
  if (!tls_) return;
  const Status renewed = load_certificate(HttpAddress(address_));
  if (!renewed) return log::error("certificate not read anew", {{"why", renewed.error().message()}});
  log::info("certificate read anew", {{"file", address_.cert_file}});
}

Status BeastServer::bind_tcp(const HttpAddress& address) {
  error_code error;
  tcp::resolver resolver(context_);
  const std::string host = address.host.empty() ? "0.0.0.0" : address.host;
  const auto found = resolver.resolve(host, std::to_string(address.port), tcp::resolver::passive, error);
  if (error || found.empty()) return Error("--host " + host + ": no such address (" + error.message() + ")");
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (error)
    return Error("cannot listen on " + host + " port " + std::to_string(address.port) + ": " + error.message() +
                 "; choose another with --port");
  const auto bound = acceptor_.local_endpoint(error);
  tcp::endpoint local;
  std::memcpy(local.data(), bound.data(), bound.size());
  local.resize(bound.size());
  loopback_ = endpoint.address().is_loopback();
  const bool v6 = endpoint.address().is_v6();
  description_ = (tls_ ? "https://" : "http://") + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(local.port());
  return {};
}

Status BeastServer::bind_uds(const std::string& path) {
  error_code error;
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return Error("--uds " + path + ": the path is too long");
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return Error("--uds " + path + ": there is a file of that name that is no socket");
    asio::local::stream_protocol::socket probe(context_);
    probe.connect(asio::local::stream_protocol::endpoint(path), error);
    if (!error) return Error("--uds " + path + ": another server listens there");
    ::unlink(path.c_str());
  }
  const asio::local::stream_protocol::endpoint endpoint(path);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (error) return Error("cannot listen on " + path + ": " + error.message());
  uds_ = path;
  description_ = (tls_ ? "unix (TLS):" : "unix:") + path;
  return {};
}

Status BeastServer::run(HttpApp& app, const std::function<void()>& ready) {
  share_.app = &app;
  raise_file_limit();
  error_code error;
  acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor_.non_blocking(true, error);
  if (error) return Error("cannot listen on " + description_ + ": " + error.message(), ErrorKind::unavailable);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) signals_.add(number, error);
  asio::co_spawn(context_, accept(), asio::detached);
  asio::co_spawn(context_, tick(), asio::detached);
  asio::co_spawn(context_, wait_for_signals(), asio::detached);
  asio::post(context_, ready);
  while (!stopped_) {
    try {
      context_.run();
      break;
    } catch (const std::exception& failure) {
      log::error("event failed", {{"why", failure.what()}});
    }
  }
  return {};
}

// Several at a time: one for each look at the sockets would let newcomers wait behind thousands of busy streams.
asio::awaitable<void> BeastServer::accept() {
  while (!stopped_) {
    const auto [waited] = co_await acceptor_.async_wait(Acceptor::wait_read, kQuietly);
    if (waited) co_return;
    error_code error;
    for (int i = 0; i < kAcceptsAtOnce && !error; ++i) {
      StreamSocket socket(context_);
      acceptor_.accept(socket, error);
      if (!error) welcome(std::move(socket));
    }
    if (!error || error == asio::error::would_block || error == asio::error::try_again ||
        error == asio::error::connection_aborted)
      continue;
    if (stopped_) co_return;  // out of files, say: what is open goes on
    log::warn("connection not accepted", {{"why", error.message()}});
    asio::steady_timer pause(context_, kTick);
    co_await pause.async_wait(kQuietly);
  }
}

void BeastServer::welcome(StreamSocket socket) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  if (num_connections() >= share_.limits.max_connections) return turn_away(std::move(socket));
  std::unique_ptr<Stream> stream =
      tls_ ? tls_stream(std::move(socket), TlsSession::server(*tls_), handshakes_.get_executor())
           : plain_stream(std::move(socket));
  auto connection = std::make_shared<Connection>(std::move(stream), share_);
  connections_.insert(connection.get());
  asio::co_spawn(context_, serve(std::move(connection)), asio::detached);
}

asio::awaitable<void> BeastServer::serve(std::shared_ptr<Connection> connection) {
  co_await connection->run();
  connections_.erase(connection.get());
}

// One too many: told so in as many bytes as a fresh socket takes at once. TLS would have to be agreed on first.
void BeastServer::turn_away(StreamSocket socket) {
  if (tls_) return;
  const std::string text = last_text(
      error_response({.status = 503, .message = "the server has as many connections as it may", .retry_after = 1}));
  error_code ignored;
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(StreamSocket::shutdown_send, ignored);
}

asio::awaitable<void> BeastServer::tick() {
  asio::steady_timer timer(context_);
  while (!stopped_) {
    timer.expires_after(kTick);
    co_await timer.async_wait(kQuietly);
    const Clock::time_point now = Clock::now();
    std::vector<std::shared_ptr<Connection>> all;
    all.reserve(connections_.size());
    for (Connection* connection : connections_) all.push_back(connection->shared_from_this());
    for (const auto& connection : all) connection->tick(now);
    share_.app->tick(now);
  }
}

asio::awaitable<void> BeastServer::wait_for_signals() {
  while (!stopped_) {
    const auto [error, number] = co_await signals_.async_wait(kQuietly);
    if (error) co_return;
    if (number == SIGHUP) renew_certificate();
    share_.app->signal(number);
  }
}

void BeastServer::shut_down() {
  stopped_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  std::vector<std::shared_ptr<Connection>> all;
  for (Connection* connection : connections_) all.push_back(connection->shared_from_this());
  for (const auto& connection : all) connection->drop();
  context_.stop();
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::bind(const HttpAddress& address, const HttpLimits& limits) {
  try {
    let_interrupts_through();
    auto server = std::make_unique<BeastServer>(limits);
    OCTAVO_TRY(server->load_certificate(address));
    OCTAVO_TRY(address.uds.empty() ? server->bind_tcp(address) : server->bind_uds(address.uds));
    return std::unique_ptr<HttpServer>(std::move(server));
  } catch (const std::exception& failure) {
    return Error(std::string("cannot start the server: ") + failure.what(), ErrorKind::unavailable);
  }
}

}  // namespace octavo
