#include "client/bench_serve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strings.h"
#include "client/answer_stream.h"
#include "client/api.h"
#include "client/load_prompts.h"
#include "terminal/console.h"
#include "terminal/progress.h"
#include "terminal/table.h"

namespace octavo {
namespace {

using Clock = HttpClient::Clock;

// Sends the planned calls, each when it is due and there is a place for it, and notes when what came.
class BenchRun {
 public:
  BenchRun(const BenchServeOptions& options, HttpClient& client, const LoadPrompts& prompts, std::string model,
           const std::vector<PlannedCall>& plan, bool shown)
      : options_(options),
        client_(client),
        prompts_(prompts),
        model_(std::move(model)),
        plan_(plan),
        times_(plan.size()),
        progress_("requests", static_cast<int>(plan.size()), shown) {}

  // Returns when all have ended.
  std::vector<CallTimes> run();
  double duration() const { return duration_; }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void admit();
  void launch();
  void send(std::size_t number);
  void take(std::size_t number, const AnswerPiece& piece);
  void end(std::size_t number, const Status& status);
  std::string body_of(const PlannedCall& call) const;

  const BenchServeOptions& options_;
  HttpClient& client_;
  const LoadPrompts& prompts_;
  const std::string model_;
  const std::vector<PlannedCall>& plan_;
  std::vector<CallTimes> times_;
  Progress progress_;
  Clock::time_point start_;
  std::size_t next_ = 0;             // to arrive
  std::deque<std::size_t> waiting_;  // arrived, without a place
  int running_ = 0;
  int ended_ = 0;
  std::int64_t tokens_ = 0;
  double duration_ = 0;
};

std::vector<CallTimes> BenchRun::run() {
  start_ = Clock::now();
  client_.at(start_, [this] { admit(); });
  client_.run();
  duration_ = now();
  progress_.finish();
  return std::move(times_);
}

void BenchRun::admit() {
  for (; next_ < plan_.size() && plan_[next_].arrival_seconds <= now(); ++next_) waiting_.push_back(next_);
  launch();
  if (next_ == plan_.size()) return;
  const std::chrono::duration<double> due(plan_[next_].arrival_seconds);
  client_.at(start_ + std::chrono::duration_cast<Clock::duration>(due), [this] { admit(); });
}

void BenchRun::launch() {
  while (!waiting_.empty() && (!options_.max_concurrency || running_ < *options_.max_concurrency)) {
    const std::size_t number = waiting_.front();
    waiting_.pop_front();
    ++running_;
    send(number);
  }
}

std::string BenchRun::body_of(const PlannedCall& call) const {
  OrderedJson body = {{"model", model_}};
  OrderedJson prompt = prompts_.prompt(call.ids);
  if (options_.route == BenchRoute::chat) {
    body["messages"] = OrderedJson::array({{{"role", "user"}, {"content", std::move(prompt)}}});
    body["max_completion_tokens"] = call.output_len;
    if (options_.logprobs) body.update({{"logprobs", true}, {"top_logprobs", *options_.logprobs}});
  } else {
    body["prompt"] = std::move(prompt);
    body["max_tokens"] = call.output_len;
    if (options_.logprobs) body["logprobs"] = *options_.logprobs;
  }
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  body["ignore_eos"] = true;  // random prompts say nothing of where an answer should end
  const auto extra = parse_ordered_json(options_.extra_body, "--extra-body");
  if (extra && extra->is_object()) body.update(*extra);
  return to_text(body);
}

void BenchRun::send(std::size_t number) {
  CallTimes& times = times_[number];
  times.input_tokens = static_cast<std::int64_t>(plan_[number].ids.size());
  std::string body = body_of(plan_[number]);
  times.start = now();
  times.queue = times.start - plan_[number].arrival_seconds;
  const auto stream = std::make_shared<AnswerStream>([this, number](const AnswerPiece& piece) { take(number, piece); },
                                                     [this, number](const Status& status) { end(number, status); });
  client_.call({.method = "POST", .route = options_.endpoint, .body = std::move(body)}, stream);
}

void BenchRun::take(std::size_t number, const AnswerPiece& piece) {
  CallTimes& times = times_[number];
  const double since = now() - times.start;
  if (piece.says_something()) {
    if (times.ttft == 0)
      times.ttft = since;
    else
      times.itl.push_back(since - times.latency);
    times.latency = since;
    ++tokens_;
  }
  if (options_.results.detailed) times.text += piece.content;
  if (!piece.usage) return;
  times.input_tokens = piece.usage->prompt_tokens;
  times.output_tokens = piece.usage->completion_tokens;
}

void BenchRun::end(std::size_t number, const Status& status) {
  CallTimes& times = times_[number];
  if (!status) times.error = status.error().message();
  if (times.output_tokens == 0 && times.latency > 0) times.output_tokens = std::ssize(times.itl) + 1;
  if (times.latency == 0) times.latency = times.ttft = now() - times.start;  // an answer without text
  --running_;
  ++ended_;
  progress_.advance(
      ended_, fixed(now(), 1) + " s, " + fixed(static_cast<double>(tokens_) / std::max(now(), 1e-9), 1) + " tok/s");
  launch();
}

std::string rate_text(const BenchServeOptions& options) {
  return options.load.request_rate ? to_text(Json(*options.load.request_rate)) : "inf";
}

std::string result_path(const BenchServeOptions& options, const std::string& model, const std::string& date) {
  std::string name = options.result_filename;
  if (name.empty()) {
    name = (options.label.empty() ? options.backend : options.label) + "-" + rate_text(options) + "qps";
    if (options.max_concurrency) name += "-concurrency" + std::to_string(*options.max_concurrency);
    name += "-" + model.substr(model.rfind('/') + 1) + "-" + date + ".json";
  }
  return options.result_dir.empty() ? name : (std::filesystem::path(options.result_dir) / name).string();
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

OrderedJson described(const BenchServeOptions& options, const std::string& model, const std::string& date) {
  OrderedJson json = {{"date", date}, {"endpoint_type", options.backend}, {"backend", options.backend}};
  json["label"] = options.label.empty() ? OrderedJson() : OrderedJson(options.label);
  json["model_id"] = model;
  json["tokenizer_id"] = model;  // the server's own
  json["num_prompts"] = options.load.num_prompts;
  for (const auto& [key, value] : options.metadata) json[key] = value;
  json["request_rate"] = options.load.request_rate ? OrderedJson(*options.load.request_rate) : OrderedJson("inf");
  json["burstiness"] = options.load.burstiness;
  json["max_concurrency"] = options.max_concurrency ? OrderedJson(*options.max_concurrency) : OrderedJson();
  return json;
}

Status save(const std::string& path, const OrderedJson& json, bool append) {
  std::string text;
  if (append && file_exists(path)) {
    OCTAVO_TRY(text, read_file(path));
    if (!text.empty() && !text.ends_with('\n')) text += "\n";
  }
  return write_file(path, text + to_text(json) + "\n");
}

// Before the work, so that it is not lost.
Status prepare_result(const BenchServeOptions& options, const std::string& path) {
  if (!options.save_result && !options.append_result) return {};
  std::error_code failure;
  if (!options.result_dir.empty()) std::filesystem::create_directories(options.result_dir, failure);
  if (failure) return Error("--result-dir " + options.result_dir + " cannot be made: " + failure.message());
  return check_output_file(path, "");
}

// The model; where a server is waited for, as soon as it answers.
Result<ServedModel> find_model(const BenchServeOptions& options, HttpClient& client) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(options.ready_check_timeout);
  for (;;) {
    Result<ServedModel> model = choose_model(client, options.model);
    const bool later =
        !model && (model.error().kind() == ErrorKind::unavailable || model.error().kind() == ErrorKind::exhausted);
    if (!later || Clock::now() >= end) return model;
    client.at(Clock::now() + std::chrono::milliseconds(500), [] {});
    client.run();
  }
}

Status measure(const BenchServeOptions& options, HttpClient& client, const ServedModel& model, const std::string& date,
               const std::string& path) {
  OCTAVO_TRY(const LoadPrompts prompts, LoadPrompts::learn(client, model.id, options.route == BenchRoute::chat));
  LoadOptions load = options.load;
  load.input_len = prompts.units_of(load.input_len);
  load.prefix_len = prompts.units_of(load.prefix_len);
  const std::vector<PlannedCall> plan = plan_load(load, prompts.num_units());
  if (options.num_warmups > 0) {
    PlannedCall first = plan.front();
    first.arrival_seconds = 0;
    const std::vector<PlannedCall> warmups(static_cast<std::size_t>(options.num_warmups), first);
    BenchRun(options, client, prompts, model.id, warmups, false).run();
  }
  BenchRun run(options, client, prompts, model.id, plan, options.progress);
  const std::vector<CallTimes> calls = run.run();
  OrderedJson json = described(options, model.id, date);
  const OrderedJson results = bench_results(calls, run.duration(), options.results);
  json.update(results);
  if (options.save_result || options.append_result) OCTAVO_TRY(save(path, json, options.append_result));
  OCTAVO_TRY(write_stdout(bench_results_text(results, options.results)));
  const std::string failures = failures_text(calls);
  if (results.at("completed") == 0) return Error("no request was answered: " + failures.substr(0, failures.find('\n')));
  std::fputs(failures.c_str(), stderr);
  return {};
}

}  // namespace

Status bench_serve(const BenchServeOptions& given) {
  BenchServeOptions options = given;
  if (options.endpoint.empty())
    options.endpoint = options.route == BenchRoute::chat ? "/v1/chat/completions" : "/v1/completions";
  OCTAVO_TRY(const std::unique_ptr<HttpClient> client, HttpClient::create(options.client));
  const std::string date = date_now();
  OCTAVO_TRY(const ServedModel model, find_model(options, *client));
  const std::string path = result_path(options, model.id, date);
  OCTAVO_TRY(prepare_result(options, path));
  log::info("benchmark begins",
            {{"model", model.id},
             {"requests", options.load.num_prompts},
             {"request_rate", rate_text(options)},
             {"max_concurrency", options.max_concurrency ? std::to_string(*options.max_concurrency) : "none"}});
  return measure(options, *client, model, date, path);
}

}  // namespace octavo
