#include "engine/engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/failing_memory.h"
#include "engine/fake_engine.h"

namespace octavo {
namespace {

// One whose answers take so long that they can only end by cancellation.
FakeEngine make_long() {
  EngineConfig config = small_config(40000);
  config.max_model_len = 300000;
  return start_fake_engine({.max_positions = 300000}, config);
}

TEST(Engine, CancellationFreesAllPages) {
  FakeEngine fake = make_long();
  auto stream = fake->submit(greedy(counting(30), 0));
  ASSERT_TRUE(stream);
  ASSERT_TRUE((*stream)->next());
  (*stream)->cancel();
  std::optional<FinishReason> last;
  while (auto event = (*stream)->next()) last = event->finish;
  EXPECT_EQ(last, FinishReason::cancelled);
  EXPECT_EQ(fake->stats().pages_held, 0);
  EXPECT_EQ(fake->stats().running, 0);
}

TEST(Engine, CancellingOneContinuationLeavesTheOthers) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  Request request = greedy(counting(20), 40);
  request.sampling.n = 3;
  auto stream = fake->submit(request);
  ASSERT_TRUE(stream);
  (*stream)->cancel_index(1);
  const auto answers = read_all(**stream, 3);
  // On a busy machine the engine may have finished before the cancellation came.
  if (answers[1].finish != FinishReason::cancelled) {
    expect_same(answers[1], expected_answer(*fake.model, request, 128));
  }
  expect_same(answers[0], expected_answer(*fake.model, request, 128));
  expect_same(answers[2], expected_answer(*fake.model, request, 128));
}

TEST(Engine, PrefixHitAndMissGiveTheSame) {
  for (const int size : {7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 64}) {
    FakeEngine fake = start_fake_engine({}, small_config(64));
    const Answer cold = ask(*fake.engine, greedy(counting(size)));
    const Answer warm = ask(*fake.engine, greedy(counting(size)));
    EXPECT_EQ(cold.cached_tokens, 0);
    EXPECT_EQ(warm.cached_tokens, (size - 1) / 8 * 8) << size;  // never all: the last token gives the logits
    expect_same(cold, expected_answer(*fake.model, greedy(counting(size)), 128));
    expect_same(warm, cold);
    EXPECT_EQ(fake.model->wrong_places, 0);
  }
}

TEST(Engine, CachedPagesAreSharedWithinSaltAndAdapterOnly) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  Request request = greedy(counting(33));
  Request salted = request;
  salted.cache_salt = "a";
  Request adapted = request;
  adapted.adapter = "a";
  for (const Request& each : {request, salted, adapted}) EXPECT_EQ(ask(*fake.engine, each).cached_tokens, 0);
  for (const Request& each : {request, salted, adapted}) EXPECT_EQ(ask(*fake.engine, each).cached_tokens, 32);
  fake->reset_prefix_cache();
  EXPECT_EQ(ask(*fake.engine, request).cached_tokens, 0);
}

TEST(Engine, AnAnswerIsReusedWhenItComesBackAsPrompt) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  Request request = greedy(counting(20), 20);
  const Answer first = ask(*fake.engine, request);
  request.prompt.insert(request.prompt.end(), first.tokens.begin(), first.tokens.end());
  EXPECT_EQ(ask(*fake.engine, request).cached_tokens, 32);  // of 40: the last token was never computed
}

TEST(Engine, ContinuationsComputeAShortPromptOnce) {
  for (const bool works_alone : {false, true})
    for (const int max_tokens : {1, 7})
      for (const int size : {6, 21})   // less than a page, and some pages with a rest
        for (const int n : {4, 20}) {  // more than there are places for
          FakeEngine fake = start_fake_engine({.works_alone = works_alone}, small_config(100));
          Request request = greedy(counting(size), max_tokens);
          request.sampling.temperature = 1;
          request.sampling.seed = 3;
          request.sampling.n = n;
          const auto stream = fake->submit(request);
          ASSERT_TRUE(stream);
          const auto answers = read_all(**stream, n);
          for (int i = 0; i < n; ++i)
            expect_same(answers[static_cast<std::size_t>(i)], expected_answer(*fake.model, request, 128, i));
          EXPECT_EQ(fake.model->wrong_places, 0);
          EXPECT_EQ(fake->stats().prefill_tokens, static_cast<std::uint64_t>(size + n - 1)) << size << " " << n;
          for (int i = 0; i < 100000 && fake->stats().pages_held > 0; ++i) std::this_thread::yield();
          EXPECT_EQ(fake->stats().pages_held, 0);
        }
}

TEST(Engine, ContinuationsComputeTheirPromptOnce) {
  EngineConfig config = small_config(128);
  FakeEngine fake = start_fake_engine({}, config);
  Request request = greedy(counting(65), 4);
  request.sampling.n = 4;
  request.sampling.temperature = 1;
  request.sampling.seed = 11;
  auto stream = fake->submit(request);
  ASSERT_TRUE(stream);
  const auto answers = read_all(**stream, 4);
  EXPECT_EQ(answers[0].cached_tokens, 0);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(answers[static_cast<std::size_t>(i)].cached_tokens, 64);
  for (int i = 0; i < 4; ++i)
    expect_same(answers[static_cast<std::size_t>(i)], expected_answer(*fake.model, request, 128, i));
}

// Limit 128: 8 tokens of prompt leave 120.
TEST(Engine, MaxTokensAreClampedToTheContext) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  EXPECT_EQ(ask(*fake.engine, greedy(counting(8), 119)).tokens.size(), 119u);
  EXPECT_EQ(ask(*fake.engine, greedy(counting(8), 125)).tokens.size(), 120u);
  EXPECT_EQ(ask(*fake.engine, greedy(counting(8), 999999)).tokens.size(), 120u);
  EXPECT_EQ(ask(*fake.engine, greedy(counting(8), 0)).tokens.size(), 120u);
  EXPECT_EQ(ask(*fake.engine, greedy(counting(127), 0)).tokens.size(), 1u);
  EXPECT_EQ(
      ask(*fake.engine, greedy(counting(128), 1)).failure,
      "This model's maximum context length is 128 tokens, but the prompt has 128 tokens, which leaves no room for an "
      "answer. Please reduce the length of the prompt.");
  EXPECT_EQ(
      ask(*fake.engine, greedy(counting(130), 1)).failure,
      "This model's maximum context length is 128 tokens, but the prompt has 130 tokens. Please reduce the length of "
      "the prompt.");
}

// A pool of exactly one longest sequence serves one, alone and beside others.
TEST(Engine, OneRequestOfTheWholeContextRunsInAPoolOfItsSize) {
  EngineConfig config = small_config(16);
  config.max_model_len = 128;
  FakeEngine fake = start_fake_engine({}, config);
  EXPECT_EQ(fake->facts().capacity_tokens, 128);
  std::vector<std::unique_ptr<TokenStream>> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(fake->submit(greedy(counting(8 + 20 * i, i), 0)).value());
  for (int i = 0; i < 6; ++i)
    expect_same(read_all(*streams[static_cast<std::size_t>(i)], 1)[0],
                expected_answer(*fake.model, greedy(counting(8 + 20 * i, i), 0), 128));
}

TEST(Engine, AStepThatFailsEndsEveryRequestAndRefusesNewOnes) {
  FakeEngine fake = start_fake_engine({.throw_at = 3}, small_config(64));
  auto first = fake->submit(greedy(counting(20), 0));
  auto second = fake->submit(greedy(counting(20, 2), 0));
  ASSERT_TRUE(first);
  const Answer answer = read_all(**first, 1)[0];
  EXPECT_EQ(answer.finish, FinishReason::failed);
  EXPECT_EQ(answer.failure,
            "the engine has stopped because a step failed (the fake device fell off); it must be started again");
  if (second) {
    EXPECT_EQ(read_all(**second, 1)[0].finish, FinishReason::failed);
  }
  const auto third = fake->submit(greedy(counting(20)));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().kind(), ErrorKind::unavailable);
  EXPECT_EQ(third.error().message(), answer.failure);
  EXPECT_EQ(fake->logits(counting(4), {}).error().message(), answer.failure);
}

// Where the next step is planned, launched, collected or handed out no memory is found: one request fails with a
// sentence, the others get their answers. A recurrent layer's record may have taken the step's tokens by then.
void expect_that_want_of_memory_costs_one_request(const std::vector<int>& windows) {
  const auto asked = [](int i) {
    Request request = greedy(counting(20, i), 30);
    request.sampling.logprobs = 2;
    return request;
  };
  int failures = 0;
  for (int allowed = 0; allowed < 100; ++allowed) {
    FakeEngine fake = start_fake_engine({.windows = windows}, small_config(64));
    FailingMemory memory(allowed);
    std::atomic<bool> armed = false;
    std::vector<std::unique_ptr<TokenStream>> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(fake->submit(asked(i)).value());
    // It runs on the engine's thread, after a step. The step after the next is spared.
    streams[0]->on_event([&, here = std::this_thread::get_id()] {
      if (std::this_thread::get_id() == here) return;  // events that were there already
      if (!armed.exchange(true))
        memory.arm();
      else
        memory.disarm();
    });
    int failed = 0;
    for (int i = 0; i < 3; ++i) {
      const Answer answer = read_all(*streams[static_cast<std::size_t>(i)], 1)[0];
      if (answer.finish == FinishReason::failed) {
        EXPECT_EQ(answer.failure, "out of memory") << allowed;
        ++failed;
      } else {
        expect_same(answer, expected_answer(*fake.model, asked(i), 128));
      }
    }
    EXPECT_LE(failed, 1) << allowed;
    EXPECT_TRUE(fake->alive()) << allowed;
    // An event for which there was no memory cancels its request, which takes another step.
    for (int i = 0; i < 100000 && fake->stats().pages_held > 0; ++i) std::this_thread::yield();
    EXPECT_EQ(fake->stats().pages_held, 0) << allowed;
    failures += failed;
  }
  EXPECT_GT(failures, 10);
}

TEST(Engine, WantOfMemoryCostsOneRequest) { expect_that_want_of_memory_costs_one_request({0}); }
TEST(Engine, WantOfMemoryCostsOneRequestWithStates) {
  expect_that_want_of_memory_costs_one_request({0, FakeModel::kRecurrent});
}

TEST(Engine, ADeviceThatFailsEndsEveryRequestAndRefusesNewOnes) {
  for (const bool works_alone : {false, true}) {
    FakeEngine fake = start_fake_engine({.works_alone = works_alone}, small_config(64));
    EXPECT_EQ(ask(*fake.engine, greedy(counting(8), 3)).tokens.size(), 3u);
    fake.backend->device().failure = "the fake GPU has failed: an illegal address";
    const Answer answer = ask(*fake.engine, greedy(counting(20), 0));
    EXPECT_EQ(answer.finish, FinishReason::failed);
    EXPECT_EQ(answer.failure,
              "the engine has stopped because a step failed (the fake GPU has failed: an illegal address); it must be "
              "started again");
    EXPECT_EQ(fake->submit(greedy(counting(20))).error().message(), answer.failure);
  }
}

TEST(Engine, DecodeStepsAreRecordedAtStartForEachBatchAndReplayed) {
  FakeEngine fake = start_fake_engine({.works_alone = true, .batch_step = 4}, small_config(64));
  EXPECT_EQ(fake.backend->device().recordings, 2);  // 4 and 8 of at most 8 sequences
  const int before = fake.model->forwards;
  expect_same(ask(*fake.engine, greedy(counting(8), 9)), expected_answer(*fake.model, greedy(counting(8), 9), 128));
  EXPECT_EQ(fake.backend->device().recordings, 2);
  EXPECT_EQ(fake.backend->device().replays, 8);  // all but the prompt's step
  EXPECT_EQ(fake.model->forwards - before, 9);
}

// Recording is computing there: at start it would only make the first answer wait.
TEST(Engine, ADeviceThatWorksAtOnceRecordsAStepWhenItFirstComes) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  EXPECT_EQ(fake.backend->device().recordings, 0);
  EXPECT_EQ(fake.model->forwards, 0);
  expect_same(ask(*fake.engine, greedy(counting(8), 9)), expected_answer(*fake.model, greedy(counting(8), 9), 128));
  EXPECT_EQ(fake.backend->device().recordings, 1);
  EXPECT_EQ(fake.backend->device().replays, 7);  // all but the prompt's step and the first decode
}

TEST(Engine, AStepThatCannotBeRecordedIsComputedAllTheSame) {
  FakeEngine fake = start_fake_engine({.records = false}, small_config(64));
  expect_same(ask(*fake.engine, greedy(counting(8), 9)), expected_answer(*fake.model, greedy(counting(8), 9), 128));
  EXPECT_EQ(fake.backend->device().replays, 0);
}

TEST(Engine, ATokenThatDoesNotExistFailsItsRequestAlone) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  fake.backend->ops().out_of_range = true;
  EXPECT_EQ(ask(*fake.engine, greedy(counting(8))).finish, FinishReason::failed);
  fake.backend->ops().out_of_range = false;
  EXPECT_EQ(ask(*fake.engine, greedy(counting(8))).finish, FinishReason::length);
}

// Families refuse such a config; of a model made otherwise, banning the token would write beyond the logits.
TEST(Engine, EndTokensBeyondTheVocabularyAreLeftOut) {
  FakeEngine fake = start_fake_engine({.eos = {-1, 40, 100000}}, small_config(64));
  Request request = greedy(counting(8), 8);
  request.sampling.min_tokens = 8;
  EXPECT_EQ(ask(*fake.engine, request).tokens.size(), 8u);
}

TEST(Engine, ADestroyedEngineEndsItsStreams) {
  FakeEngine fake = make_long();
  auto stream = fake->submit(greedy(counting(8), 0));
  ASSERT_TRUE(stream);
  ASSERT_TRUE((*stream)->next());
  fake.engine.reset();
  std::optional<FinishReason> last;
  while (auto event = (*stream)->next()) last = event->finish;
  EXPECT_EQ(last, FinishReason::cancelled);
}

TEST(Engine, AFullQueueRefusesAtOnceAndCountsContinuations) {
  EngineConfig config = small_config(16);
  config.max_model_len = 128;
  config.max_num_seqs = 1;
  config.max_queued = 4;
  FakeEngine fake = start_fake_engine({}, config);
  std::vector<std::unique_ptr<TokenStream>> streams;
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    auto stream = fake->submit(greedy(counting(100, i), 0));
    if (stream) {
      streams.push_back(*std::move(stream));
    } else {
      ++refused;
      EXPECT_EQ(stream.error().kind(), ErrorKind::exhausted);
      EXPECT_TRUE(stream.error().message().starts_with("the queue is full: 4 of 4 places are taken"));
    }
  }
  EXPECT_GT(refused, 0);
  for (const auto& stream : streams) EXPECT_EQ(read_all(*stream, 1)[0].finish, FinishReason::length);
  Request many = greedy(counting(8));
  many.sampling.n = 5;
  EXPECT_EQ(fake->submit(many).error().message(), "n is 5, but only 4 continuations may wait");
}

TEST(Engine, LogitsOfEveryPositionWhateverTheChunks) {
  const std::vector<std::int32_t> ids = counting(100);
  for (const int chunk : {1, 7, 64, 200}) {
    EngineConfig config = small_config(20);
    config.max_num_batched_tokens = chunk;
    FakeEngine fake = start_fake_engine({.windows = {0}}, config);
    for (const std::optional<int> decode_from :
         {std::optional<int>(), std::optional<int>(0), std::optional<int>(50), std::optional<int>(100)}) {
      const int before = fake.model->forwards;
      const auto logits = fake->logits(ids, decode_from);
      ASSERT_TRUE(logits) << logits.error().message();
      ASSERT_EQ(logits->size(), 100u * 40u);
      for (std::size_t i = 0; i < ids.size(); ++i)
        ASSERT_EQ(std::vector<float>(logits->begin() + static_cast<std::ptrdiff_t>(i) * 40,
                                     logits->begin() + static_cast<std::ptrdiff_t>(i + 1) * 40),
                  fake.model->expected(std::span(ids).first(i + 1)));
      const int prefill = decode_from.value_or(100);
      EXPECT_EQ(fake.model->forwards - before, (prefill + chunk - 1) / chunk + (100 - prefill));
    }
  }
}

// A long text in blocks of rows: each block finds what came before it in the cache.
TEST(Engine, LogitsInBlocksOfRows) {
  const std::vector<std::int32_t> ids = counting(100);
  for (const std::vector<int>& windows : {std::vector{0}, std::vector{0, 12}}) {
    for (const bool caching : {true, false}) {
      EngineConfig config = small_config(40, static_cast<int>(windows.size()));
      config.prefix_caching = caching;
      FakeEngine fake = start_fake_engine({.windows = windows}, config);
      for (int first = 0; first < 100; first += 24) {
        const int end = std::min(first + 24, 100);
        const auto rows = fake->logits({ids.begin(), ids.begin() + end}, std::nullopt, first);
        ASSERT_TRUE(rows) << rows.error().message();
        ASSERT_EQ(rows->size(), static_cast<std::size_t>(end - first) * 40u);
        for (int i = first; i < end; ++i)
          ASSERT_EQ(std::vector<float>(rows->begin() + (i - first) * 40, rows->begin() + (i - first + 1) * 40),
                    fake.model->expected(std::span(ids).first(static_cast<std::size_t>(i) + 1)));
      }
      // 24, 48, 72 and 96 tokens were there when the next block came.
      EXPECT_EQ(fake->stats().cached_prompt_tokens, caching ? 24u + 48u + 72u + 96u : 0u);
      EXPECT_EQ(fake.model->wrong_places, 0);
    }
  }
}

TEST(Engine, TwoEnginesShareOneModel) {
  auto loaded = std::make_shared<LoadedModel>();
  auto model = std::make_unique<FakeModel>(40, 128, std::vector<int>{0});
  const FakeModel& truth = *model;
  loaded->ranks.push_back({.backend = std::make_unique<FakeBackend>(), .model = std::move(model), .weights = {}});
  loaded->threads = start_threads(loaded->ranks);
  loaded->available_bytes = loaded->device().memory().available_bytes;
  const auto first = Engine::create(small_config(64), loaded);
  const auto second = Engine::create(small_config(32), loaded);
  loaded.reset();
  ASSERT_TRUE(first && second);
  for (const int from : {1, 5}) {
    const Request request = greedy(counting(30, from), 12);
    expect_same(ask(**first, request), expected_answer(truth, request, 128));
    expect_same(ask(**second, request), expected_answer(truth, request, 128));
  }
}

TEST(Engine, LogitsNameWhatIsWrong) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  EXPECT_EQ(fake->logits({}, {}).error().message(), "there are no tokens to compute logits of");
  EXPECT_EQ(fake->logits(counting(129), {}).error().message(),
            "This model's maximum context length is 128 tokens, but there are 129 tokens to compute logits of");
  EXPECT_EQ(fake->logits({3, 40}, {}).error().message(),
            "entry 1 of the tokens is token 40, but the vocabulary ends at 39");
  EXPECT_EQ(fake->logits({3, 4}, 3).error().message(),
            "decode_from is 3: it must be between 0 and the 2 tokens there are");
  for (const int first : {-1, 2})
    EXPECT_EQ(fake->logits({3, 4}, {}, first).error().message(),
              "the first row of logits is " + std::to_string(first) + ": it must be one of the 2 tokens there are");
  EXPECT_EQ(fake->logits(counting(128), {})->size(), 128u * 40u);
}

TEST(Engine, LogprobsAreOfTheUnchangedLogits) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  Request request = greedy(counting(20), 6);
  request.sampling.logprobs = 3;
  request.sampling.repetition_penalty = 2;
  const Answer answer = ask(*fake.engine, request);
  ASSERT_EQ(answer.logprobs.size(), 6u);
  std::vector<std::int32_t> history = request.prompt;
  for (std::size_t i = 0; i < 6; ++i) {
    const std::vector<float> logits = fake.model->expected(history);
    EXPECT_EQ(answer.logprobs[i].logprob, log_softmax(logits, answer.tokens[i]));
    ASSERT_EQ(answer.logprobs[i].top.size(), 3u);
    EXPECT_EQ(answer.logprobs[i].top[0].first, std::max_element(logits.begin(), logits.end()) - logits.begin());
    EXPECT_GE(answer.logprobs[i].top[0].second, answer.logprobs[i].top[1].second);
    history.push_back(answer.tokens[i]);
  }
}

// Two prompts that overlap, in both orders, cached or not: rows are always computed, never stale.
TEST(Engine, PromptLogprobsAreComputedEvenWhenThePromptIsCached) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  for (const int size : {40, 33, 40}) {
    Request request = greedy(counting(size), 2);
    request.sampling.prompt_logprobs = 2;
    const Answer answer = ask(*fake.engine, request);
    EXPECT_EQ(answer.cached_tokens, 0);
    ASSERT_EQ(static_cast<int>(answer.prompt_logprobs.size()), size);
    EXPECT_TRUE(answer.prompt_logprobs[0].top.empty());
    for (std::size_t i = 1; i < request.prompt.size(); ++i) {
      EXPECT_EQ(answer.prompt_logprobs[i].logprob,
                log_softmax(fake.model->expected(std::span(request.prompt).first(i)), request.prompt[i]));
      EXPECT_EQ(answer.prompt_logprobs[i].top.size(), 2u);
    }
  }
}

TEST(Engine, RequestsWithoutSeedDifferAndRepeatWithTheEngineSeed) {
  const auto run = [](std::uint64_t seed) {
    EngineConfig config = small_config(64);
    config.seed = seed;
    FakeEngine fake = start_fake_engine({}, config);
    Request request = greedy(counting(8), 12);
    request.sampling.temperature = 1;
    return std::pair(ask(*fake.engine, request).tokens, ask(*fake.engine, request).tokens);
  };
  const auto [a, b] = run(1);
  EXPECT_NE(a, b);
  EXPECT_EQ(run(1), std::pair(a, b));
  EXPECT_NE(run(2).first, a);
}

TEST(Engine, StatisticsAreTrueOnceAnEventWasRead) {
  FakeEngine fake = start_fake_engine({}, small_config(64));
  ask(*fake.engine, greedy(counting(20), 5));
  const EngineStats stats = fake->stats();
  EXPECT_EQ(stats.prompt_tokens, 20u);
  EXPECT_EQ(stats.generated_tokens, 5u);
  EXPECT_EQ(stats.steps, 5u);
  EXPECT_EQ(stats.prefill_tokens, 20u);
  EXPECT_GT(stats.prefill_seconds, 0);
  EXPECT_NEAR(stats.prefill_rate, 20 / stats.prefill_seconds, 1e-6 * stats.prefill_rate) << "of the only such step";
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.pages_total, 64);
  EXPECT_EQ(stats.pages_cached, 3);  // 24 tokens were computed
  EXPECT_EQ(stats.pages_free, 61);
  EXPECT_EQ(stats.layers.size(), 1u);
}

TEST(Engine, ALengthThatDoesNotFitIsRefusedWithTheBytesItNeeds) {
  EngineConfig config = small_config(15);
  config.max_model_len = 128;
  const auto fake = make_fake_engine({}, config);
  ASSERT_FALSE(fake);
  EXPECT_EQ(
      fake.error().message(),
      "one request of --max-model-len 128 needs 4.2 KiB (4352 bytes) of KV cache, but --kv-cache-memory-bytes gives "
      "4096 bytes: at most 120 tokens fit");
  config.max_model_len.reset();
  EXPECT_EQ(start_fake_engine(FakeEngineSpec{}, config)->facts().max_model_len, 120);
}

}  // namespace
}  // namespace octavo
