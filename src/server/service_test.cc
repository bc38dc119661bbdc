#include "server/service.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "engine/fake_engine.h"
#include "server/apis.h"
#include "server/server_app.h"
#include "server/test_words.h"

namespace octavo {
namespace {

EngineConfig engine_config() {
  EngineConfig config = small_config(64);
  config.max_queued = 64;
  return config;
}

// Its steps wait while somebody holds the gate.
struct HeldModel final : Model {
  const ModelSpec& spec() const override { return model.spec(); }
  NameMap names() const override { return model.names(); }
  Status visit(Binder& binder) override { return model.visit(binder); }
  std::vector<KvScales> kv_scales() const override { return model.kv_scales(); }
  Tensor forward(Step& step) override {
    const std::lock_guard wait(gate);
    return model.forward(step);
  }
  FakeModel model{260, 128, {0}};
  std::mutex gate;
};

// The engine of a held model, which it owns.
std::unique_ptr<Engine> start_held_engine(HeldModel*& held) {
  auto model = std::make_unique<HeldModel>();
  held = model.get();
  LoadedModel loaded;
  loaded.ranks.push_back({.backend = std::make_unique<FakeBackend>(std::make_shared<FakeRanks>(1), 0),
                          .model = std::move(model),
                          .weights = {}});
  loaded.threads = start_threads(loaded.ranks);
  loaded.available_bytes = loaded.device().memory().available_bytes;
  auto engine = make_local_engine(std::make_shared<LoadedModel>(std::move(loaded)), engine_config());
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message());
  return *std::move(engine);
}

// A server over a made-up model, on a port of its own, with its event loop in a thread.
class TestServer {
 public:
  explicit TestServer(const FakeEngineSpec& spec)
      : TestServer(std::move(start_fake_engine(spec, engine_config()).engine), {}) {}
  TestServer(std::unique_ptr<Engine> engine, const ServicePolicy& policy)
      : words_(test_words()), engine_(std::move(engine)) {
    auto http = HttpServer::bind({.host = "127.0.0.1", .port = 0, .uds = ""}, {});
    EXPECT_TRUE(http) << http.error().message();
    http_ = *std::move(http);
    service_ = std::make_unique<Service>(*engine_, words_, *http_, *Access::create({}),
                                         AdmissionLimits{.max_running = 8, .max_queued = 8}, policy);
    add_health_routes(router_);
    add_completion_routes(router_);
    app_ = std::make_unique<ServerApp>(*service_, router_, CorsConfig{}, std::chrono::milliseconds(0));
    loop_ = std::thread([this] { EXPECT_TRUE(http_->run(*app_, [] {})); });
  }
  ~TestServer() {
    http_->stop();
    loop_.join();
    app_.reset();
    service_.reset();
    http_.reset();
  }

  // The whole answer, headers and all.
  std::string ask(const std::string& method, const std::string& path, const std::string& body = "") {
    const int connection = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string where = http_->describe();
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(where.substr(where.rfind(':') + 1))));
    while (::connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      std::this_thread::yield();  // the loop's thread has not begun to listen
    const std::string request = method + " " + path +
                                " HTTP/1.1\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
                                "\r\n\r\n" + body;
    EXPECT_EQ(::send(connection, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::string answer;
    char buffer[4096];
    for (ssize_t count; (count = ::recv(connection, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(count));
    ::close(connection);
    return answer;
  }

 private:
  Words words_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Service> service_;
  Router router_;
  std::unique_ptr<ServerApp> app_;
  std::thread loop_;
};

bool begins(const std::string& answer, const std::string& with) { return answer.substr(0, with.size()) == with; }
bool contains(const std::string& answer, const std::string& part) { return answer.find(part) != std::string::npos; }

const std::string kLong = R"("prompt":[5,6,7],"max_tokens":50,"ignore_eos":true)";

TEST(Service, WhenTheEngineDiesAWholeAnswerIsRefusedAndTheProbesSaySo) {
  TestServer server({.vocab = 260, .max_positions = 128, .throw_at = 5});
  EXPECT_TRUE(begins(server.ask("GET", "/health"), "HTTP/1.1 200"));
  const std::string cut = server.ask("POST", "/v1/completions", "{" + kLong + "}");
  EXPECT_TRUE(begins(cut, "HTTP/1.1 503")) << cut;
  EXPECT_TRUE(contains(cut, "retry-after: ") && contains(cut, "the engine has stopped")) << cut;
  for (const char* path : {"/health", "/ready", "/ping"})
    EXPECT_TRUE(begins(server.ask("GET", path), "HTTP/1.1 503")) << path;
  EXPECT_TRUE(begins(server.ask("GET", "/live"), "HTTP/1.1 200"));
  EXPECT_TRUE(begins(server.ask("GET", "/metrics"), "HTTP/1.1 200"));
  const std::string later = server.ask("POST", "/v1/completions", "{" + kLong + "}");
  EXPECT_TRUE(begins(later, "HTTP/1.1 503")) << later;
}

TEST(Service, WhenTheEngineDiesAStreamEndsWithAnError) {
  TestServer server({.vocab = 260, .max_positions = 128, .throw_at = 5});
  const std::string stream = server.ask("POST", "/v1/completions", "{\"stream\":true," + kLong + "}");
  // Before its first event a stream is refused as a whole answer is.
  const std::string error = begins(stream, "HTTP/1.1 200") ? "data: {\"error\":{\"message\":\"the engine has stopped"
                                                           : "\r\n\r\n{\"error\":{\"message\":\"the engine has stopped";
  EXPECT_TRUE(contains(stream, error)) << stream;
  EXPECT_FALSE(contains(stream, "\"finish_reason\":\"")) << stream;
}

TEST(Service, WhileTheEngineHangsTheProbesSaySo) {
  HeldModel* model = nullptr;
  auto engine = start_held_engine(model);
  TestServer server(std::move(engine), {.hang_bound = std::chrono::milliseconds(20)});
  const auto becomes = [&](const std::string& status) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::minutes(4);
    while (!begins(server.ask("GET", "/health"), "HTTP/1.1 " + status))
      if (std::chrono::steady_clock::now() > patience) return false;
    return true;
  };
  EXPECT_TRUE(becomes("200"));
  std::unique_lock held(model->gate);
  std::string answer;
  std::thread client([&] { answer = server.ask("POST", "/v1/completions", "{" + kLong + "}"); });
  EXPECT_TRUE(becomes("503"));
  EXPECT_TRUE(begins(server.ask("GET", "/ready"), "HTTP/1.1 503"));
  EXPECT_TRUE(begins(server.ask("GET", "/live"), "HTTP/1.1 200"));
  held.unlock();
  client.join();
  EXPECT_TRUE(begins(answer, "HTTP/1.1 200")) << answer;
  EXPECT_TRUE(becomes("200"));
}

TEST(Service, ManyThreadsOfClientsGetTheirOwnAnswers) {
  TestServer server({.vocab = 260, .max_positions = 128});
  const auto text_of_prompt = [&](int i, bool stream) {
    const std::string body = "{\"prompt\":[" + std::to_string(5 + i) +
                             ",9],\"max_tokens\":8,\"temperature\":0,\"stream\":" + (stream ? "true}" : "false}");
    const std::string answer = server.ask("POST", "/v1/completions", body);
    std::string text;
    for (std::size_t at = 0; (at = answer.find("\"text\":\"", at)) != std::string::npos;) {
      at += 8;
      text += answer.substr(at, answer.find("\",\"logprobs\"", at) - at);
    }
    return text;
  };
  std::vector<std::string> alone;
  for (int i = 0; i < 6; ++i) alone.push_back(text_of_prompt(i, false));
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i)
    clients.emplace_back([&, i] {
      for (int round = 0; round < 5; ++round)
        EXPECT_EQ(text_of_prompt(i, round % 2 == 1), alone[static_cast<std::size_t>(i)]);
    });
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace octavo
