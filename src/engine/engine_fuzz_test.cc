#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "engine/fake_engine.h"

namespace octavo {
namespace {

struct Shape {
  const char* name;
  std::vector<int> windows;
  int num_pages;  // per layer
  int chunk;
  int num_seqs;
  bool prefix_caching;
  std::uint64_t least_preemptions;
};

// How the device works: steps may overlap, and decode steps be padded to multiples of `batch_step`, 0: not recorded.
struct Manner {
  const char* name;
  bool works_alone;
  int batch_step;
};

class EngineFuzz : public testing::TestWithParam<std::tuple<Shape, Manner>> {};

EngineConfig config_of(const Shape& shape) {
  EngineConfig config = small_config(shape.num_pages, static_cast<int>(shape.windows.size()));
  config.max_num_batched_tokens = shape.chunk;
  config.max_num_seqs = shape.num_seqs;
  config.max_model_len = 64;
  return config;
}

// Many requests at once through a pool that holds little more than one of them: whatever is preempted, shared,
// cancelled or cut into chunks, every answer is the one that its history alone decides.
TEST_P(EngineFuzz, EveryAnswerIsThatOfTheRequestAlone) {
  const auto& [shape, manner] = GetParam();
  EngineConfig config = config_of(shape);
  config.max_queued = 100000;
  config.prefix_caching = shape.prefix_caching;
  FakeEngine fake = *make_fake_engine({.max_positions = 64,
                                       .windows = shape.windows,
                                       .eos = {0},
                                       .works_alone = manner.works_alone,
                                       .batch_step = manner.batch_step},
                                      config);
  std::mt19937 random(7);
  std::vector<std::pair<Request, std::unique_ptr<TokenStream>>> open;
  int cancelled = 0;
  for (int round = 0; round < 700; ++round) {
    Request request = random_request(random, 64);
    auto stream = fake->submit(request);
    ASSERT_TRUE(stream) << stream.error().message();
    if (between(random, 0, 9) == 0) {
      if (between(random, 0, 1)) (*stream)->next();
      ++cancelled;  // by dropping the stream
      continue;
    }
    open.emplace_back(std::move(request), *std::move(stream));
  }
  for (auto& [request, stream] : open) {
    const std::vector<Answer> answers = read_all(*stream, request.sampling.n);
    for (int i = 0; i < request.sampling.n; ++i) {
      SCOPED_TRACE(i);
      expect_same(answers[static_cast<std::size_t>(i)], expected_answer(*fake.model, request, 64, i));
    }
    if (request.sampling.prompt_logprobs) {
      EXPECT_EQ(answers[0].prompt_logprobs.size(), request.prompt.size());
      for (std::size_t i = 1; i < request.prompt.size(); ++i)
        EXPECT_EQ(answers[0].prompt_logprobs.at(i).logprob,
                  log_softmax(fake.model->expected(std::span(request.prompt).first(i)), request.prompt[i]));
    }
  }
  EXPECT_GT(cancelled, 20);
  EXPECT_EQ(fake.model->wrong_places, 0);
  EXPECT_LE(fake.model->max_tokens_seen, shape.chunk);
  EXPECT_GE(fake->stats().preemptions, shape.least_preemptions);
  const bool has_states = std::count(shape.windows.begin(), shape.windows.end(), FakeModel::kRecurrent) > 0;
  EXPECT_EQ(fake.backend->ops().copies > 20, has_states && shape.prefix_caching) << fake.backend->ops().copies;
  for (int wait = 0; wait < 5000 && fake->stats().pages_held > 0; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(fake->stats().pages_held, 0);  // what was cancelled is gone too
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EngineFuzz,
    testing::Combine(
        testing::Values(Shape{"tiny", {0}, 9, 32, 8, true, 50}, Shape{"tiny_uncached", {0}, 9, 32, 8, false, 50},
                        Shape{"roomy", {0}, 100, 256, 16, true, 0}, Shape{"one_token_a_step", {0}, 12, 1, 4, true, 0},
                        Shape{"odd_chunks", {0, 0}, 12, 7, 5, true, 20}, Shape{"window", {0, 12}, 13, 16, 6, true, 10},
                        Shape{"window_uncached", {12, 0, 20}, 30, 9, 6, false, 0},
                        Shape{"window_only", {10}, 12, 16, 4, true, 0},
                        Shape{"states", {FakeModel::kRecurrent, 0}, 6, 16, 6, true, 10},
                        Shape{"states_uncached", {FakeModel::kRecurrent, 0}, 6, 16, 6, false, 10},
                        Shape{"many_states", {FakeModel::kRecurrent, 0}, 40, 24, 6, true, 0},
                        Shape{"states_and_window", {12, FakeModel::kRecurrent, 0}, 9, 7, 4, true, 0}),
        testing::Values(Manner{"at_once", false, 1}, Manner{"overlapping", true, 0}, Manner{"padded", true, 4})),
    [](const auto& which) { return std::string(std::get<0>(which.param).name) + "_" + std::get<1>(which.param).name; });

class EngineCancels : public testing::TestWithParam<std::tuple<Shape, Manner>> {};

// A request whose reader leaves after so many events.
struct Reading {
  Request request;
  std::unique_ptr<TokenStream> stream;
  std::vector<Answer> answers;
  int events_left = 0;
  bool cancels = false;
};

Reading begin_reading(FakeEngine& fake, std::mt19937& random) {
  Reading reading;
  reading.request = random_request(random, 64);
  reading.answers.resize(static_cast<std::size_t>(reading.request.sampling.n));
  reading.events_left = between(random, 0, 24);
  reading.cancels = between(random, 0, 1) == 0;
  auto stream = fake->submit(reading.request);
  EXPECT_TRUE(stream) << (stream ? "" : stream.error().message());
  reading.stream = *std::move(stream);
  return reading;
}

// Takes one event; false when there are no more, or none are wanted.
bool read_on(Reading& reading) {
  if (--reading.events_left < 0) return false;
  const auto event = reading.stream->next();
  if (!event) return false;
  Answer& answer = reading.answers.at(static_cast<std::size_t>(event->index));
  if (event->token) answer.tokens.push_back(*event->token);
  if (event->finish) answer.finish = event->finish;
  if (event->stop_token) answer.stop_token = event->stop_token;
  return true;
}

// What was read is a beginning of the answer, or all of it.
void expect_beginnings(const FakeEngine& fake, const Reading& reading) {
  for (std::size_t i = 0; i < reading.answers.size(); ++i) {
    const Answer& got = reading.answers[i];
    const Answer want = expected_answer(*fake.model, reading.request, 64, static_cast<int>(i));
    ASSERT_LE(got.tokens.size(), want.tokens.size());
    EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), want.tokens.begin()));
    if (got.finish) expect_same(got, want);
  }
}

void expect_nothing_held(FakeEngine& fake) {
  for (int wait = 0; wait < 5000 && fake->stats().pages_held + fake->stats().records_held > 0; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const EngineStats stats = fake->stats();
  EXPECT_EQ(stats.pages_held, 0);
  EXPECT_EQ(stats.records_held, 0);
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
  EXPECT_EQ(stats.running + stats.waiting, 0);
}

// A thousand requests, a dozen at a time, each left after some events: its stream is dropped, or cancelled and read to
// its end. What was read is as if nobody had left, nothing stays held, and those who come then have their answers.
TEST_P(EngineCancels, AThousandAtRandomPoints) {
  const auto& [shape, manner] = GetParam();
  const FakeEngineSpec spec{
      .max_positions = 64, .windows = shape.windows, .eos = {0}, .works_alone = manner.works_alone};
  FakeEngine fake = start_fake_engine(spec, config_of(shape));
  std::mt19937 random(11);
  std::vector<Reading> open;
  int begun = 0, left = 0;
  while (begun < 1000 || !open.empty()) {
    if (begun < 1000 && open.size() < 12) {
      open.push_back(begin_reading(fake, random));
      ++begun;
      continue;
    }
    const auto which = open.begin() + between(random, 0, static_cast<int>(open.size()) - 1);
    if (read_on(*which)) continue;
    left += which->events_left < 0;
    if (which->cancels) which->stream->cancel();
    while (which->cancels && which->stream->next()) continue;
    expect_beginnings(fake, *which);
    open.erase(which);
  }
  EXPECT_GT(left, 300);
  EXPECT_LT(left, 900) << "some come to their ends";
  EXPECT_EQ(fake.model->wrong_places, 0);
  expect_nothing_held(fake);
  for (int i = 0; i < 20; ++i) {
    const Request request = random_request(random, 64);
    expect_same(ask(*fake.engine, request), expected_answer(*fake.model, request, 64));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EngineCancels,
    testing::Combine(testing::Values(Shape{"tiny", {0}, 9, 32, 8, true, 0},
                                     Shape{"window", {0, 12}, 13, 16, 6, true, 0},
                                     Shape{"states", {FakeModel::kRecurrent, 0}, 6, 16, 6, true, 0}),
                     testing::Values(Manner{"at_once", false, 1}, Manner{"overlapping", true, 0})),
    [](const auto& which) { return std::string(std::get<0>(which.param).name) + "_" + std::get<1>(which.param).name; });

TEST(EngineFuzzThreads, ManyThreadsMaySubmitReadCancelAndAsk) {
  EngineConfig config = small_config(20);
  config.max_model_len = 64;
  FakeEngine fake = *make_fake_engine({.max_positions = 64, .eos = {0}, .works_alone = true, .batch_step = 2}, config);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&fake, &wrong, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 40; ++i) {
        const Request request = random_request(random, 64);
        auto stream = fake->submit(request);
        if (!stream) {
          ++wrong;
          continue;
        }
        if (i % 5 == 0) continue;
        fake->stats();
        if (i % 7 == 0) fake->reset_prefix_cache();
        if (i % 11 == 0 && !fake->logits({3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, 5)) ++wrong;
        const auto answers = read_all(**stream, request.sampling.n);
        if (answers[0].tokens != expected_answer(*fake.model, request, 64).tokens) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace octavo
