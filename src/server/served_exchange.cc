#include "server/served_exchange.h"

#include <array>
#include <charconv>

#include "base/check.h"

namespace octavo {

ServedExchange::ServedExchange(HttpRequest request, Facts facts, HttpApp& app, std::function<void()> wake,
                               std::function<void()> break_off)
    : request_(std::move(request)),
      facts_(facts),
      app_(app),
      wake_(std::move(wake)),
      break_off_(std::move(break_off)),
      head_(request_.method == "HEAD") {}

ServedExchange::~ServedExchange() { drop_body(); }

void ServedExchange::drop_body() {
  request_.body = std::string();
  if (counter_ != nullptr) counter_->fetch_sub(std::exchange(held_bytes_, 0));
}

void ServedExchange::hold(std::atomic<std::size_t>& counter, std::size_t bytes) {
  counter_ = &counter;
  held_bytes_ += bytes;
  counter.fetch_add(bytes);
}

void ServedExchange::begin(int status, std::string_view content_type, const HttpHeaders& headers) {
  check(!answered_, "an exchange is answered once");
  answered_ = true;
  out_ += "HTTP/1.1 " + std::to_string(status) + " ";
  out_ += status_phrase(status);
  HttpHeaders all = headers;
  if (!content_type.empty()) all.emplace_back("content-type", content_type);
  app_.add_headers(request_, all);
  for (const auto& [name, value] : all) {
    out_ += "\r\n";
    out_ += name;
    out_ += ": ";
    out_ += value;
  }
  if (!facts_.keep_alive) out_ += "\r\nconnection: close";
  if (facts_.keep_alive && facts_.http_1_0) out_ += "\r\nconnection: keep-alive";
}

void ServedExchange::respond(HttpResponse response) {
  if (!open_) return;
  for (const auto& [name, value] : response.headers)
    if (name == "connection" && value == "close") facts_.keep_alive = false;
  std::erase_if(response.headers, [](const auto& header) { return header.first == "connection"; });
  begin(response.status, response.body.empty() ? "" : response.content_type, response.headers);
  if (response.status != 204 && response.status != 304)
    out_ += "\r\ncontent-length: " + std::to_string(response.body.size());
  out_ += "\r\n\r\n";
  if (!head_) out_ += response.body;
  finished_ = true;
  wake_();
}

void ServedExchange::begin_stream(std::string_view content_type) {
  if (!open_) return;
  chunked_ = !facts_.http_1_0;
  if (facts_.http_1_0) facts_.keep_alive = false;
  begin(200, content_type, {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}});
  if (chunked_) out_ += "\r\ntransfer-encoding: chunked";
  out_ += "\r\n\r\n";
  wake_();
}

void ServedExchange::write(std::string_view data) {
  if (!open_ || finished_ || head_ || data.empty()) return;
  if (chunked_) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.begin(), digits.end(), data.size(), 16).ptr;
    out_.append(digits.data(), end);
    out_ += "\r\n";
  }
  out_ += data;
  if (chunked_) out_ += "\r\n";
  wake_();
}

void ServedExchange::finish() {
  if (!open_ || finished_) return;
  if (chunked_ && !head_) out_ += "0\r\n\r\n";
  finished_ = true;
  wake_();
}

void ServedExchange::abort() {
  if (open_) break_off_();
}

std::string ServedExchange::take() {
  taken_ = out_.size();
  return std::exchange(out_, {});
}

bool ServedExchange::probe() {
  if (facts_.http_1_0) return false;
  if (answered_) return true;
  out_ += "HTTP/1.1 100 Continue\r\n\r\n";
  wake_();
  return true;
}

void ServedExchange::drained() {
  taken_ = 0;
  if (listener_ && open_ && !finished_) std::shared_ptr(listener_)->drained();
}

void ServedExchange::tick(std::chrono::steady_clock::time_point now) {
  if (listener_ && open_ && !finished_) std::shared_ptr(listener_)->tick(now);
}

void ServedExchange::over() {
  open_ = false;
  listener_.reset();
  wake_ = [] {};
  break_off_ = [] {};
}

void ServedExchange::client_gone() {
  if (!open_) return;
  const std::shared_ptr<ExchangeListener> listener = std::move(listener_);
  const bool finished = finished_;
  over();
  if (listener && !finished) listener->client_gone();
}

}  // namespace octavo
