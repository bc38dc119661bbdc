// Many requests at once through a real model: what shares a step, a page or a pool with a request changes no bit of its
// answer. One body for each wing; a program that includes this says over which paths it runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "base/log.h"
#include "engine/snapshot_points.h"
#include "tests/golden/fixture.h"

namespace octavo::golden {
namespace {

struct Path {
  std::string name;
  std::string model;
  std::string kv_cache;
  BackendFactory factory;  // of a wing that computes every row alike
  int page_size = 16;
};

struct Heard {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::optional<FinishReason> finish;
  int cached_tokens = 0;

  bool operator==(const Heard& other) const {
    return tokens == other.tokens && logprobs == other.logprobs && finish == other.finish;
  }
};

Heard listen(TokenStream& stream) {
  Heard heard;
  while (auto event = stream.next()) {
    if (event->token) heard.tokens.push_back(*event->token);
    if (event->logprobs) heard.logprobs.push_back(event->logprobs->logprob);
    if (event->finish) heard.finish = event->finish;
    heard.cached_tokens += event->cached_tokens;
  }
  return heard;
}

class RealEngine : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    log::set_level(log::Level::error);
    golden_ = load(*find(GetParam().model));
  }
  int page_size() const { return GetParam().page_size; }

  EngineConfig config() const {
    EngineConfig config = engine_config(golden_.folder);
    config.compute.reset();
    config.kv_cache = *parse_kv_cache_dtype(GetParam().kv_cache);
    config.page_size = page_size();
    config.max_model_len = 160;
    config.max_queued = 1000;
    config.fill_memory = false;  // several engines share a device here
    return config;
  }
  std::unique_ptr<Engine> start(const EngineConfig& config) const {
    auto engine = Engine::create(config, GetParam().factory);
    EXPECT_TRUE(engine) << (engine ? "" : engine.error().message());
    return *std::move(engine);
  }

  // Ten requests of many lengths; some begin alike.
  std::vector<Request> requests() const {
    std::mt19937 random(3);
    const std::vector<std::int32_t>& text = golden_.ids.at("input_ids");
    std::vector<Request> all;
    for (const int size : {1, 5, 16, 17, 33, 48, 60, 64, 80, 96}) {
      Request request;
      request.prompt.assign(text.begin(), text.begin() + size);
      if (size % 3 == 0) request.prompt[static_cast<std::size_t>(size) / 2] = 7;
      request.sampling.max_tokens = 24;
      request.sampling.temperature = size % 2 == 0 ? 0.0f : 0.9f;
      request.sampling.top_p = 0.95f;
      request.sampling.repetition_penalty = size % 5 == 0 ? 1.2f : 1.0f;
      request.sampling.seed = random();
      request.sampling.logprobs = 2;
      request.sampling.ignore_eos = true;
      all.push_back(std::move(request));
    }
    return all;
  }

  Golden golden_;
};

std::vector<Heard> all_at_once(Engine& engine, const std::vector<Request>& requests) {
  std::vector<std::unique_ptr<TokenStream>> streams;
  for (const Request& request : requests) streams.push_back(engine.submit(request).value());
  std::vector<Heard> heard;
  for (const auto& stream : streams) heard.push_back(listen(*stream));
  return heard;
}

TEST_P(RealEngine, AnswersAreTheSameAloneInABatchAndPreempted) {
  const std::vector<Request> asked = requests();
  EngineConfig alone = config();
  alone.prefix_caching = false;
  alone.max_num_seqs = 1;
  const auto single = start(alone);
  std::vector<Heard> expected;
  for (const Request& request : asked) expected.push_back(listen(**single->submit(request)));

  const auto roomy = start(config());
  EXPECT_EQ(all_at_once(*roomy, asked), expected);
  EXPECT_EQ(roomy->stats().preemptions, 0u);

  EngineConfig tight = config();
  tight.max_num_batched_tokens = 23;
  EngineConfig least = tight;  // room for one of the longest
  least.max_num_seqs = 1;
  tight.kv_cache_bytes = static_cast<std::int64_t>(start(least)->facts().kv_cache_bytes);
  const auto crowded = start(tight);
  // Where a part of the room is for windows or states, it is those that requests wait for, before they begin.
  const auto is_bounded = [](const LayerSpec& layer) { return layer.window > 0 || layer.cache == CacheKind::state; };
  const std::vector<LayerSpec>& layers = crowded->spec().layers;
  const bool may_preempt = std::none_of(layers.begin(), layers.end(), is_bounded);
  // On a busy machine a request may have ended before the next one is there: then none had to make room.
  for (int round = 0; round == 0 || (may_preempt && crowded->stats().preemptions == 0); ++round) {
    ASSERT_LT(round, 50) << "nothing was preempted";
    EXPECT_EQ(all_at_once(*crowded, asked), expected);
  }
}

TEST_P(RealEngine, APrefixHitChangesNoBit) {
  const auto engine = start(config());
  Request request = requests().back();
  const Heard cold = listen(**engine->submit(request));
  const Heard warm = listen(**engine->submit(request));
  EXPECT_EQ(cold.cached_tokens, 0);
  // Whole pages of the 96 tokens, but not one that ends with them: the last token gives the logits. A state is left
  // behind from so many on.
  const std::vector<LayerSpec>& layers = engine->spec().layers;
  const bool has_states =
      std::any_of(layers.begin(), layers.end(), [](const LayerSpec& l) { return l.cache == CacheKind::state; });
  const int whole = 95 / page_size() * page_size();
  EXPECT_EQ(warm.cached_tokens, has_states && whole < first_snapshot(page_size()) ? 0 : whole);
  EXPECT_EQ(warm, cold);
}

TEST_P(RealEngine, LogitsAreTheSameInAnyChunks) {
  const std::vector<std::int32_t>& ids = golden_.ids.at("input_ids");
  const std::vector<float> whole = *start(config())->logits(ids, std::nullopt);
  for (const int chunk : {1, 7, 64}) {
    EngineConfig chunked = config();
    chunked.max_num_batched_tokens = chunk;
    EXPECT_EQ(*start(chunked)->logits(ids, std::nullopt), whole) << chunk;
  }
  EXPECT_EQ(*start(config())->logits(ids, 40), whole);
}

// Every path writes its rows of the cache and counts them.
TEST_P(RealEngine, CountersCountEveryNumberThatWasWritten) {
  const auto engine = start(config());
  ASSERT_TRUE(engine->logits(golden_.ids.at("input_ids"), std::nullopt));
  const EngineStats stats = engine->stats();
  for (std::size_t layer = 0; layer < stats.layers.size(); ++layer) {
    const LayerFacts& facts = engine->facts().layers[layer];
    if (!facts.has_cache) continue;
    int numbers = 0;  // of one token
    for (const KvSegment& segment :
         std::span(facts.format.segments, static_cast<std::size_t>(facts.format.num_segments)))
      numbers += segment.heads * segment.width;
    EXPECT_EQ(stats.layers[layer].counters.written, 96u * static_cast<unsigned>(numbers));
    EXPECT_GT(stats.layers[layer].counters.key_amax, 0.0f);
  }
}

}  // namespace
}  // namespace octavo::golden
