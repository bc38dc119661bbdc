#include "tests/fuzz/fuzz_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>

#include "engine/fake_engine.h"
#include "server/apis.h"
#include "server/server_app.h"
#include "server/test_words.h"
#include "tests/fuzz/fuzz_folder.h"
#include "tests/fuzz/require.h"

namespace octavo {
namespace {

constexpr int kPatienceMs = 20'000;
constexpr int kPositions = 128;

HttpLimits small_limits() {
  HttpLimits limits;
  limits.max_header_bytes = 4096;
  limits.max_body_bytes = std::size_t{64} << 10;
  return limits;
}

class FuzzServer {
 public:
  FuzzServer();
  ~FuzzServer();
  const std::string& path() const { return path_; }

 private:
  FuzzFolder folder_;
  std::string path_;
  Words words_;
  FakeEngine fake_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Service> service_;
  Router router_;
  std::unique_ptr<ServerApp> app_;
  std::thread loop_;
};

FuzzServer::FuzzServer() : path_(folder_.path("socket")), words_(test_words()) {
  words_.formats = {CallFormat::tagged, ReasoningFormat::tags};
  words_.trust_request_template = true;
  EngineConfig config = small_config(256);
  config.max_queued = 512;
  auto fake = make_fake_engine({.vocab = 260, .max_positions = kPositions}, config);
  require(fake.has_value(), "an engine", fake ? "" : fake.error().message());
  fake_ = *std::move(fake);
  auto http = HttpServer::bind({.host = "", .port = 0, .uds = path_}, small_limits());
  require(http.has_value(), "a socket", http ? "" : http.error().message());
  http_ = *std::move(http);
  service_ = std::make_unique<Service>(*fake_.engine, words_, *http_, *Access::create({}),
                                       AdmissionLimits{.max_running = 8, .max_queued = 256}, ServicePolicy{});
  add_routes(router_);
  app_ = std::make_unique<ServerApp>(*service_, router_, CorsConfig{}, std::chrono::milliseconds(0));
  loop_ = std::thread([this] { require(http_->run(*app_, [] {}).has_value(), "the server runs", ""); });
}

FuzzServer::~FuzzServer() {
  http_->stop();
  loop_.join();
  app_.reset();
  service_.reset();
  http_.reset();
}

}  // namespace

std::string ask_fuzz_server(std::string_view bytes, bool ends) {
  static FuzzServer server;
  const std::string& path = server.path();
  const int connection = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int tries = 0;
  while (::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    require(++tries < 20'000, "the server takes connections", std::strerror(errno));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::string answer;
  char buffer[8192];
  std::size_t sent = 0;
  if (bytes.empty() && ends) ::shutdown(connection, SHUT_WR);
  while (true) {
    const short wanted = static_cast<short>(POLLIN | (sent < bytes.size() ? POLLOUT : 0));
    pollfd event{connection, wanted, 0};
    require(::poll(&event, 1, kPatienceMs) == 1, "the server answers or closes in time", bytes);
    if ((event.revents & POLLOUT) != 0) {
      const ssize_t count = ::send(connection, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      sent = count > 0 ? sent + static_cast<std::size_t>(count) : bytes.size();  // it may have closed
      if (sent == bytes.size() && ends) ::shutdown(connection, SHUT_WR);
    }
    if ((event.revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    const ssize_t count = ::recv(connection, buffer, sizeof buffer, 0);
    if (count <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(connection);
  return answer;
}

}  // namespace octavo
