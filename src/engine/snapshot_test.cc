// Snapshots of recurrent states: where a sequence leaves them, who begins from them, and how many there can be. Pages
// hold 8 tokens, so that the first one is after 32.
#include <gtest/gtest.h>

#include <limits>

#include "engine/fake_engine.h"
#include "engine/snapshot_points.h"

namespace octavo {
namespace {

constexpr int kVocab = 40;

std::vector<std::int32_t> prompt_of(int size, int first = 0) {
  std::vector<std::int32_t> prompt;
  for (int i = 0; i < size; ++i) prompt.push_back((first + i * (1 + first)) % kVocab);
  return prompt;
}

EngineConfig roomy_config() {
  EngineConfig config = small_config(100, 2);
  config.max_num_batched_tokens = 256;
  config.max_num_seqs = 4;
  return config;
}

FakeEngine start(const EngineConfig& config, bool works_alone = false) {
  return start_fake_engine({.windows = {FakeModel::kRecurrent, 0}, .works_alone = works_alone}, config);
}

// The answer, and that it is the one that its history decides.
Answer checked(FakeEngine& fake, const Request& request) {
  Answer answer = ask(*fake.engine, request);
  expect_same(answer, expected_answer(*fake.model, request, 128));
  EXPECT_EQ(fake.model->wrong_places, 0);
  return answer;
}

TEST(SnapshotPoints, DoubleAndEndWithThePromptAndWithWhatIsShared) {
  const auto points_of = [](const Sequence& sequence, int end) {
    std::vector<int> points;
    for (int at = next_snapshot(sequence, 0, 64); at <= end; at = next_snapshot(sequence, at, 64)) points.push_back(at);
    return points;
  };
  Sequence sequence;
  sequence.prompt_size = 2000;
  EXPECT_EQ(points_of(sequence, 5000), (std::vector<int>{256, 512, 1024, 1984, 2048, 4096}));
  sequence.shared_pages = 5;
  EXPECT_EQ(points_of(sequence, 2000), (std::vector<int>{256, 320, 512, 1024, 1984}));
  sequence.prompt_size = 2048;
  EXPECT_EQ(next_snapshot(sequence, 1024, 64), 1984) << "one token must be left to compute";
  Sequence brief;
  brief.prompt_size = first_snapshot(64);
  EXPECT_EQ(points_of(brief, 600), (std::vector<int>{256, 512})) << "of its answer alone";
  EXPECT_EQ(next_snapshot(sequence, std::numeric_limits<int>::max() - 1, 64), std::numeric_limits<int>::max());
}

TEST(Snapshots, APromptIsTakenUpAtItsLastWholePage) {
  for (const bool works_alone : {false, true}) {
    FakeEngine fake = start(roomy_config(), works_alone);
    const Request request = greedy(prompt_of(45), 3);
    EXPECT_EQ(checked(fake, request).cached_tokens, 0);
    EXPECT_EQ(fake->stats().records_cached, 2) << "after 32 and 40";
    EXPECT_EQ(checked(fake, request).cached_tokens, 40);
    std::vector<std::int32_t> longer = prompt_of(45);
    longer.resize(70, 7);
    EXPECT_EQ(checked(fake, greedy(longer, 3)).cached_tokens, 40);
    EXPECT_EQ(checked(fake, greedy(longer, 3)).cached_tokens, 64);
    EXPECT_EQ(fake->stats().records_held, 0);
  }
}

TEST(Snapshots, WhatTwoPromptsShareIsFoundByTheThird) {
  FakeEngine fake = start(roomy_config());
  const auto with_tail = [](int tail) {
    std::vector<std::int32_t> prompt = prompt_of(20);
    for (int i = 0; i < 40; ++i) prompt.push_back((tail + i) % kVocab);
    return greedy(std::move(prompt), 3);
  };
  EXPECT_EQ(checked(fake, with_tail(3)).cached_tokens, 0);
  EXPECT_EQ(checked(fake, with_tail(13)).cached_tokens, 0) << "16 tokens are there, but no state after them";
  EXPECT_EQ(checked(fake, with_tail(23)).cached_tokens, 16);
}

TEST(Snapshots, AnAnswerLeavesThemToo) {
  for (const bool works_alone : {false, true}) {
    FakeEngine fake = start(roomy_config(), works_alone);
    std::vector<std::int32_t> history = prompt_of(10);
    const Answer answer = checked(fake, greedy(history, 60));
    history.insert(history.end(), answer.tokens.begin(), answer.tokens.end());
    EXPECT_EQ(checked(fake, greedy(history, 3)).cached_tokens, 64);
  }
}

TEST(Snapshots, ContinuationsOfARequestBeginFromTheLeaders) {
  FakeEngine fake = start(roomy_config());
  Request request = greedy(prompt_of(45), 5);
  request.sampling.n = 3;
  request.sampling.seed = 11;
  request.sampling.temperature = 0.8f;
  const auto stream = *fake->submit(request);
  const std::vector<Answer> answers = read_all(*stream, 3);
  for (int i = 0; i < 3; ++i) {
    expect_same(answers[static_cast<std::size_t>(i)], expected_answer(*fake.model, request, 128, i));
    EXPECT_EQ(answers[static_cast<std::size_t>(i)].cached_tokens, i == 0 ? 0 : 40);
  }
  EXPECT_EQ(fake.model->wrong_places, 0);
}

// One sequence at a time has a record and four more.
TEST(Snapshots, TheyAreBoundedAndTheOldestGoFirst) {
  EngineConfig config = roomy_config();
  config.max_num_seqs = 1;
  FakeEngine fake = start(config);
  EXPECT_EQ(fake->stats().records_total, 5);
  EXPECT_NE(fake->facts().capacity_derivation.find("states: 5 records x 128 bytes for 1 sequence and 4 snapshots"),
            std::string::npos)
      << fake->facts().capacity_derivation;
  for (int i = 0; i < 7; ++i) {
    checked(fake, greedy(prompt_of(36, i), 3));
    EXPECT_LE(fake->stats().records_cached, 5);
  }
  EXPECT_EQ(checked(fake, greedy(prompt_of(36, 6), 3)).cached_tokens, 32);
  EXPECT_EQ(checked(fake, greedy(prompt_of(36, 0), 3)).cached_tokens, 0);
}

TEST(Snapshots, ResetForgetsThem) {
  FakeEngine fake = start(roomy_config());
  checked(fake, greedy(prompt_of(45), 3));
  fake->reset_prefix_cache();
  EXPECT_EQ(checked(fake, greedy(prompt_of(45), 3)).cached_tokens, 0);
}

TEST(Snapshots, WithoutThePrefixCacheThereAreNone) {
  EngineConfig config = roomy_config();
  config.prefix_caching = false;
  FakeEngine fake = start(config);
  EXPECT_EQ(fake->stats().records_total, 4);
  for (int round = 0; round < 2; ++round) EXPECT_EQ(checked(fake, greedy(prompt_of(45), 3)).cached_tokens, 0);
  EXPECT_EQ(fake->stats().records_cached, 0);
}

}  // namespace
}  // namespace octavo
