// For tests: an engine over FakeModel, what it must answer, and how its answers are read.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/fake_backend.h"
#include "engine/fake_model.h"
#include "engine/local_engine.h"

namespace octavo {

struct FakeEngine {
  FakeModel* model = nullptr;  // of rank 0, as is the backend
  FakeBackend* backend = nullptr;
  std::vector<FakeModel*> models;  // of each rank
  std::vector<FakeBackend*> backends;
  std::unique_ptr<Engine> engine;

  Engine* operator->() { return engine.get(); }
};

struct FakeEngineSpec {
  int vocab = 40;
  int max_positions = 128;
  std::vector<int> windows = {0};
  std::vector<std::int32_t> eos = {};
  int throw_at = -1;
  bool works_alone = false;  // the device: steps overlap
  bool records = true;       // and keeps recordings
  int batch_step = 1;        // decode steps are padded to multiples of it
  int num_ranks = 1;
  int failing_rank = 0;  // which throw_at is of
};

inline Result<FakeEngine> make_fake_engine(const FakeEngineSpec& spec, const EngineConfig& config) {
  log::set_level(log::Level::error);
  FakeEngine fake;
  LoadedModel loaded;
  const auto group = std::make_shared<FakeRanks>(spec.num_ranks);
  for (int rank = 0; rank < spec.num_ranks; ++rank) {
    auto model = std::make_unique<FakeModel>(spec.vocab, spec.max_positions, spec.windows);
    model->mutable_spec().eos = spec.eos;
    auto backend = std::make_unique<FakeBackend>(group, rank);
    backend->device().works_alone = spec.works_alone;
    backend->device().records = spec.records;
    backend->batch_step = spec.batch_step;
    fake.models.push_back(model.get());
    fake.backends.push_back(backend.get());
    loaded.ranks.push_back({.backend = std::move(backend), .model = std::move(model), .weights = {}});
  }
  fake.model = fake.models.front();
  fake.backend = fake.backends.front();
  loaded.threads = start_threads(loaded.ranks);
  loaded.available_bytes = loaded.device().memory().available_bytes;
  auto engine = make_local_engine(std::make_shared<LoadedModel>(std::move(loaded)), config);
  if (!engine) return engine.error();
  fake.engine = *std::move(engine);
  FakeModel& failing = *fake.models[static_cast<std::size_t>(spec.failing_rank)];
  if (spec.throw_at >= 0) failing.throw_at = failing.forwards + spec.throw_at;  // not counting those at start
  return fake;
}

// The same where it must succeed.
inline FakeEngine start_fake_engine(const FakeEngineSpec& spec, const EngineConfig& config) {
  auto fake = make_fake_engine(spec, config);
  EXPECT_TRUE(fake) << (fake ? "" : fake.error().message());
  return *std::move(fake);
}

// Tokens of the vocabulary of 40, each seven beyond the one before.
inline std::vector<std::int32_t> counting(int size, int from = 1) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < size; ++i) ids.push_back((from + i * 7) % 40);
  return ids;
}

inline Request greedy(std::vector<std::int32_t> prompt, int max_tokens = 8) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

// A small configuration: pages of 8, and a pool of so many of them.
inline EngineConfig small_config(int num_pages, int num_layers = 1) {
  EngineConfig config;
  config.page_size = 8;
  config.kv_cache_bytes = std::int64_t{num_pages + 1} * 8 * 32 * num_layers;
  config.max_num_batched_tokens = 32;
  config.max_num_seqs = 8;
  return config;
}

struct Answer {
  std::vector<std::int32_t> tokens = {};
  std::vector<TokenLogprobs> logprobs = {};
  std::vector<TokenLogprobs> prompt_logprobs = {};
  std::optional<FinishReason> finish = {};
  std::optional<std::int32_t> stop_token = {};
  std::string failure = {};
  int cached_tokens = 0;
};

// Reads to the end.
inline std::vector<Answer> read_all(TokenStream& stream, int n) {
  std::vector<Answer> answers(static_cast<std::size_t>(n));
  while (auto event = stream.next()) {
    Answer& answer = answers.at(static_cast<std::size_t>(event->index));
    if (event->token) answer.tokens.push_back(*event->token);
    if (event->logprobs) answer.logprobs.push_back(*event->logprobs);
    if (!event->prompt_logprobs.empty()) answer.prompt_logprobs = event->prompt_logprobs;
    if (event->finish) answer.finish = event->finish;
    if (event->stop_token) answer.stop_token = event->stop_token;
    answer.failure += event->failure;
    answer.cached_tokens += event->cached_tokens;
  }
  return answers;
}

inline void expect_same(const Answer& got, const Answer& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.finish, want.finish) << got.failure;
  EXPECT_EQ(got.stop_token, want.stop_token);
}

inline Answer ask(Engine& engine, const Request& request) {
  auto stream = engine.submit(request);
  if (!stream) return Answer{.failure = stream.error().message()};
  return read_all(**stream, request.sampling.n).front();
}

inline int between(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

// A prompt that shares its beginning with others of the same `family`.
inline Request random_request(std::mt19937& random, int max_positions) {
  Request request;
  const int shared = between(random, 0, 3);
  for (int i = 0; i < between(random, 1, 24); ++i) request.prompt.push_back((shared * 5 + i) % 40);
  for (int i = between(random, 0, max_positions / 4); i > 0; --i) request.prompt.push_back(between(random, 0, 39));
  SamplingParams& s = request.sampling;
  s.temperature = between(random, 0, 1) ? 0.0f : 0.8f;
  s.seed = static_cast<std::uint64_t>(between(random, 0, 1000));
  s.max_tokens = between(random, 0, 9) == 0 ? 0 : between(random, 1, max_positions / 3);
  s.n = between(random, 0, 7) == 0 ? between(random, 2, 3) : 1;
  s.ignore_eos = between(random, 0, 3) == 0;
  if (between(random, 0, 4) == 0) s.min_tokens = std::min(s.max_tokens, 5);
  if (between(random, 0, 4) == 0) s.repetition_penalty = 1.3f;
  if (between(random, 0, 4) == 0) s.frequency_penalty = 0.5f;
  if (between(random, 0, 4) == 0) s.presence_penalty = -0.5f;
  if (between(random, 0, 4) == 0) s.logit_bias = {{3, 2.5f}, {7, -100.0f}};
  if (between(random, 0, 7) == 0) s.allowed_token_ids = {3, 5, 7, 11, 20, 21};
  if (between(random, 0, 7) == 0) s.bad_words = {{5}, {20, 7}, {3, 3, 11}};
  if (between(random, 0, 3) == 0) s.stop_token_ids = {between(random, 0, 39)};
  if (between(random, 0, 5) == 0) s.logprobs = between(random, 0, 3);
  if (between(random, 0, 7) == 0) s.prompt_logprobs = 1;
  request.priority = between(random, -1, 1);
  request.cache_salt = between(random, 0, 5) == 0 ? "salt" : "";
  return request;
}

// What one continuation must be, from the history alone. The request has a seed or is greedy.
inline Answer expected_answer(const FakeModel& model, const Request& request, int max_model_len, int index = 0) {
  const SamplingParams& s = request.sampling;
  std::set<std::int32_t> stops(s.stop_token_ids.begin(), s.stop_token_ids.end());
  if (!s.ignore_eos) stops.insert(model.spec().eos.begin(), model.spec().eos.end());
  const int room = max_model_len - static_cast<int>(request.prompt.size());
  const int limit = s.max_tokens > 0 ? std::min(s.max_tokens, room) : room;
  std::vector<std::int32_t> history = request.prompt;
  std::map<std::int32_t, int> seen;
  for (const std::int32_t token : request.prompt) seen[token] += 0;
  Answer answer;
  while (!answer.finish) {
    std::vector<float> logits = model.expected(history);
    for (const auto& [id, bias] : s.logit_bias) logits[static_cast<std::size_t>(id)] += bias;
    std::set<std::int32_t> banned;
    if (static_cast<int>(answer.tokens.size()) < s.min_tokens) banned = stops;
    for (const auto& word : s.bad_words)
      if (word.size() <= answer.tokens.size() + 1 &&
          std::equal(word.begin(), word.end() - 1, answer.tokens.end() - (std::ssize(word) - 1)))
        banned.insert(word.back());
    const std::set<std::int32_t> allowed(s.allowed_token_ids.begin(), s.allowed_token_ids.end());
    for (std::int32_t id = 0; !allowed.empty() && id < std::ssize(logits); ++id)
      if (!allowed.contains(id)) logits[static_cast<std::size_t>(id)] = -INFINITY;
    if (allowed.empty() || !std::includes(banned.begin(), banned.end(), allowed.begin(), allowed.end()))
      for (const std::int32_t id : banned) logits[static_cast<std::size_t>(id)] = -INFINITY;
    for (const auto& [id, count] : seen) {
      float& x = logits[static_cast<std::size_t>(id)];
      x = x > 0 ? x / s.repetition_penalty : x * s.repetition_penalty;
      x -= s.frequency_penalty * static_cast<float>(count) + (count > 0 ? s.presence_penalty : 0.0f);
    }
    const std::int32_t token =
        draw(logits, s.temperature, s.seed.value_or(0) + static_cast<std::uint64_t>(index), history.size());
    if (stops.contains(token)) {
      answer.finish = FinishReason::stop;
      answer.stop_token = token;
    } else {
      answer.tokens.push_back(token);
      history.push_back(token);
      ++seen[token];
      if (static_cast<int>(answer.tokens.size()) == limit) answer.finish = FinishReason::length;
    }
  }
  return answer;
}

}  // namespace octavo
