// For tests: an engine over FakeModel, what it must answer, and how its answers are read.
#pragma once

#include <map>
#include <memory>
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
  FakeModel* model = nullptr;
  FakeBackend* backend = nullptr;
  std::unique_ptr<Engine> engine;

  Engine* operator->() { return engine.get(); }
};

struct FakeEngineSpec {
  int vocab = 40;
  int max_positions = 128;
  std::vector<int> windows = {0};
  std::vector<std::int32_t> eos = {};
  int throw_at = -1;
};

inline Result<FakeEngine> make_fake_engine(const FakeEngineSpec& spec, const EngineConfig& config) {
  log::set_level(log::Level::error);
  auto model = std::make_unique<FakeModel>(spec.vocab, spec.max_positions, spec.windows);
  model->mutable_spec().eos = spec.eos;
  model->throw_at = spec.throw_at;
  auto backend = std::make_unique<FakeBackend>();
  FakeEngine fake{.model = model.get(), .backend = backend.get(), .engine = nullptr};
  LoadedModel loaded;
  loaded.available_bytes = backend->device().memory().available_bytes;
  loaded.model = std::move(model);
  loaded.backend = std::move(backend);
  auto engine = make_local_engine(std::move(loaded), config);
  if (!engine) return engine.error();
  fake.engine = *std::move(engine);
  return fake;
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

inline Answer ask(Engine& engine, const Request& request) {
  auto stream = engine.submit(request);
  if (!stream) return Answer{.failure = stream.error().message()};
  return read_all(**stream, request.sampling.n).front();
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
    if (static_cast<int>(answer.tokens.size()) < s.min_tokens)
      for (const std::int32_t id : stops) logits[static_cast<std::size_t>(id)] = -INFINITY;
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
