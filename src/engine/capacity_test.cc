// An engine on a device with memory of its own: it takes its share, what it promises runs, and each way in which memory
// can be missing is one sentence.
#include <gtest/gtest.h>

#include "engine/fake_engine.h"

namespace octavo {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;

struct Card {
  FakeBackend* backend = nullptr;
  std::shared_ptr<LoadedModel> loaded = std::make_shared<LoadedModel>();
  FakeModel* model = nullptr;

  explicit Card(int max_positions = 1 << 20) {
    log::set_level(log::Level::error);
    auto card = std::make_unique<FakeBackend>();
    backend = card.get();
    backend->device().dedicated = true;
    backend->device().available = kGiB;
    auto fake = std::make_unique<FakeModel>(40, max_positions, std::vector<int>{0});
    model = fake.get();
    loaded->available_bytes = kGiB;
    loaded->ranks.push_back({.backend = std::move(card), .model = std::move(fake), .weights = {}});
    loaded->threads = start_threads(loaded->ranks);
  }
};

// 32 bytes a token, pages of 8.
EngineConfig automatic(float share) {
  EngineConfig config = small_config(1);
  config.kv_cache_bytes.reset();
  config.gpu_memory_utilization = share;
  return config;
}

TEST(Capacity, TheCacheTakesItsShareAndARequestOfTheWholeLengthRuns) {
  const Card card(1 << 16);
  const auto engine = Engine::create(automatic(0.002f), card.loaded);
  ASSERT_TRUE(engine) << engine.error().message();
  const EngineFacts& facts = (*engine)->facts();
  const auto allowed = static_cast<std::size_t>(0.002 * static_cast<double>(kGiB));
  EXPECT_LE(card.backend->device().memory().held_bytes, allowed + 64);
  EXPECT_GT(card.backend->device().memory().held_bytes, allowed - allowed / 4);
  EXPECT_EQ(facts.max_model_len, facts.capacity_tokens);
  EXPECT_LT(facts.max_model_len, 1 << 16);
  EXPECT_NE(facts.capacity_derivation.find("0.2% of the device's 1.0 GiB, less "), std::string::npos)
      << facts.capacity_derivation;

  card.model->wrong_places = 0;  // the profile writes all tokens to one page
  Request request;
  for (int i = 0; i < facts.max_model_len - 1; ++i) request.prompt.push_back(i % 40);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  expect_same(ask(**engine, request), expected_answer(*card.model, request, facts.max_model_len));
  EXPECT_EQ(card.model->wrong_places, 0);
}

TEST(Capacity, AGivenLengthThatDoesNotFitIsRefusedWithTheDerivation) {
  const Card card;
  EngineConfig config = automatic(0.004f);
  config.max_model_len = 1 << 20;
  const auto engine = Engine::create(config, card.loaded);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().message().find("one request of --max-model-len 1048576 needs 32.0 MiB (33554"), 0u)
      << engine.error().message();
  EXPECT_NE(engine.error().message().find("tokens fit"), std::string::npos);
}

TEST(Capacity, WhatAnotherProcessFillsAfterStartIsNotTaken) {
  const Card card;
  card.backend->device().others = kGiB - (std::size_t{257} << 20);
  const auto little = Engine::create(automatic(0.9f), card.loaded);
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().message().find("nothing is left for the KV cache: 25"), 0u) << little.error().message();
  card.backend->device().others = kGiB - 4096;
  const auto full = Engine::create(automatic(0.9f), card.loaded);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind(), ErrorKind::exhausted);
  EXPECT_NE(full.error().message().find("cannot allocate"), std::string::npos) << full.error().message();
}

// The profile went well, then somebody took the memory.
TEST(Capacity, APoolThatIsNotThereIsOneSentence) {
  const Card card(1 << 10);
  card.backend->device().largest = std::size_t{1} << 20;
  const auto engine = Engine::create(automatic(0.004f), card.loaded);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().message().find("cannot allocate "), 0u) << engine.error().message();
  EXPECT_NE(engine.error().message().find("for the KV cache"), std::string::npos);
  EXPECT_NE(engine.error().message().find("choose a smaller --kv-cache-memory-bytes"), std::string::npos);
}

TEST(Capacity, AStepThatFindsNoMemoryEndsRequestsWithOneSentence) {
  const Card card(1 << 10);
  const auto engine = Engine::create(automatic(0.004f), card.loaded);
  ASSERT_TRUE(engine) << engine.error().message();
  card.backend->device().largest = 0;
  Request request;
  request.prompt = {1, 2, 3};
  request.sampling.max_tokens = 4;
  request.sampling.logit_bias = {{3, 2.5f}};
  auto stream = (*engine)->submit(request);
  ASSERT_TRUE(stream);
  std::string failure;
  while (const auto event = (*stream)->next())
    if (!event->failure.empty()) failure = event->failure;
  EXPECT_NE(failure.find("cannot allocate"), std::string::npos) << failure;
  EXPECT_NE(failure.find("the engine has stopped because a step failed"), std::string::npos) << failure;
  const auto next = (*engine)->submit(request);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().kind(), ErrorKind::unavailable);
}

TEST(Capacity, TheProcessorTakesShorterStepsThanACard) {
  for (const bool dedicated : {true, false}) {
    const Card card(1 << 10);
    card.backend->device().dedicated = dedicated;
    EngineConfig config = automatic(0.01f);
    config.max_num_batched_tokens.reset();
    const auto engine = Engine::create(config, card.loaded);
    ASSERT_TRUE(engine) << engine.error().message();
    EXPECT_EQ((*engine)->facts().max_num_batched_tokens, dedicated ? 2048 : 512);
  }
}

TEST(Capacity, AStepHasRoomForATokenOfEachRequestAndForAsManyOfPrompts) {
  const Card card(1 << 10);
  card.backend->device().dedicated = false;
  EngineConfig config = automatic(0.9f);
  config.max_num_batched_tokens.reset();
  config.max_num_seqs = 700;
  const auto engine = Engine::create(config, card.loaded);
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_EQ((*engine)->facts().max_num_batched_tokens, 1400);
}

TEST(Capacity, MemoryOfTheHostIsNotFilled) {
  const Card card(1 << 10);
  card.backend->device().dedicated = false;
  const auto engine = Engine::create(automatic(0.9f), card.loaded);
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_EQ((*engine)->facts().capacity_tokens, 8 << 10);
  EXPECT_LT(card.model->max_tokens_seen, 32);  // no largest step is run to see what it takes
}

}  // namespace
}  // namespace octavo
