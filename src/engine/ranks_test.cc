// Several ranks behind one scheduler: answers are those of one rank, and a rank that fails costs what it would cost
// alone, without keeping the others waiting.
#include <gtest/gtest.h>

#include "engine/fake_engine.h"

namespace octavo {
namespace {

void expect_all_places_right(const FakeEngine& fake) {
  for (const FakeModel* model : fake.models) EXPECT_EQ(model->wrong_places, 0);
}

// Each rank reads its own pages and records: where one of them were given another plan, the sums would not be right.
TEST(Ranks, AnswersAreThoseOfTheRequestAlone) {
  for (const bool works_alone : {false, true})
    for (const std::vector<int>& windows : {std::vector{0, 12}, std::vector{0, FakeModel::kRecurrent}}) {
      EngineConfig config = small_config(24, 2);
      config.max_num_batched_tokens = 24;
      config.max_num_seqs = 6;
      config.max_model_len = 64;
      config.max_queued = 1000;
      FakeEngine fake = start_fake_engine(
          {.max_positions = 64, .windows = windows, .eos = {0}, .works_alone = works_alone, .num_ranks = 3}, config);
      std::mt19937 random(11);
      std::vector<std::pair<Request, std::unique_ptr<TokenStream>>> open;
      for (int i = 0; i < 60; ++i) {
        Request request = random_request(random, 64);
        auto stream = fake->submit(request).value();
        if (i % 8 == 7) continue;  // cancelled
        open.emplace_back(std::move(request), std::move(stream));
      }
      for (auto& [request, stream] : open) {
        const auto answers = read_all(*stream, request.sampling.n);
        for (int i = 0; i < request.sampling.n; ++i)
          expect_same(answers[static_cast<std::size_t>(i)], expected_answer(*fake.model, request, 64, i));
      }
      expect_all_places_right(fake);
    }
}

TEST(Ranks, PreemptedRequestsAreComputedAnew) {
  EngineConfig config = small_config(9);
  config.max_model_len = 64;
  FakeEngine fake = start_fake_engine({.max_positions = 64, .num_ranks = 2}, config);
  // On a busy machine a request may have ended before the next one is there: then none had to make room.
  for (int round = 0; fake->stats().preemptions == 0; ++round) {
    ASSERT_LT(round, 50) << "nothing was preempted";
    std::vector<std::unique_ptr<TokenStream>> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(fake->submit(greedy(counting(10, i), 40)).value());
    for (int i = 0; i < 4; ++i)
      expect_same(read_all(*streams[static_cast<std::size_t>(i)], 1)[0],
                  expected_answer(*fake.model, greedy(counting(10, i), 40), 64));
  }
  expect_all_places_right(fake);
}

TEST(Ranks, CancellationAndTheEndOfTheEngineHangNowhere) {
  EngineConfig config = small_config(40000);
  config.max_model_len = 300000;
  FakeEngine fake = start_fake_engine({.max_positions = 300000, .num_ranks = 4}, config);
  auto cancelled = fake->submit(greedy(counting(30, 1), 0)).value();
  auto running = fake->submit(greedy(counting(20, 2), 0)).value();
  ASSERT_TRUE(cancelled->next());
  ASSERT_TRUE(running->next());
  cancelled->cancel();
  EXPECT_EQ(read_all(*cancelled, 1)[0].finish, FinishReason::cancelled);
  ASSERT_TRUE(running->next());
  fake.engine.reset();
  EXPECT_EQ(read_all(*running, 1)[0].finish, FinishReason::cancelled);
}

// The step is given up on all ranks; the one that was missing memory need not be the first.
TEST(Ranks, ARankThatFindsNoMemoryCostsOneRequest) {
  for (const std::vector<int>& windows : {std::vector{0}, std::vector{0, FakeModel::kRecurrent}})
    for (const std::size_t rank : {0u, 1u, 2u}) {
      FakeEngine fake = start_fake_engine({.windows = windows, .num_ranks = 3}, small_config(64, 2));
      fake.models[rank]->out_of_memory_at = fake.models[rank]->forwards + 9;
      std::vector<std::unique_ptr<TokenStream>> streams;
      for (int i = 0; i < 3; ++i) streams.push_back(fake->submit(greedy(counting(20, i), 60)).value());
      int failed = 0;
      for (int i = 0; i < 3; ++i) {
        const Answer answer = read_all(*streams[static_cast<std::size_t>(i)], 1)[0];
        if (answer.finish == FinishReason::failed) {
          EXPECT_EQ(answer.failure, "out of memory");
          ++failed;
          continue;
        }
        expect_same(answer, expected_answer(*fake.model, greedy(counting(20, i), 60), 128));
      }
      EXPECT_EQ(failed, 1) << "rank " << rank;
      EXPECT_TRUE(fake->alive());
      expect_same(ask(*fake.engine, greedy(counting(9, 5), 9)),
                  expected_answer(*fake.model, greedy(counting(9, 5), 9), 128));
      expect_all_places_right(fake);
    }
}

TEST(Ranks, ARankThatThrowsEndsEveryRequestWithItsSentence) {
  for (const int rank : {0, 1, 2}) {
    FakeEngine fake = start_fake_engine({.throw_at = 3, .num_ranks = 3, .failing_rank = rank}, small_config(64));
    const Answer answer = ask(*fake.engine, greedy(counting(20, 1), 0));
    EXPECT_EQ(answer.finish, FinishReason::failed);
    EXPECT_EQ(answer.failure,
              "the engine has stopped because a step failed (the fake device fell off); it must be started again");
    EXPECT_EQ(fake->submit(greedy(counting(20, 1), 1)).error().message(), answer.failure);
  }
}

TEST(Ranks, ADeviceThatFailsIsNoticedWhoseverItIs) {
  for (const std::size_t rank : {0u, 1u}) {
    FakeEngine fake = start_fake_engine({.num_ranks = 2}, small_config(64));
    fake.backends[rank]->device().failure = "the fake GPU has failed";
    const Answer answer = ask(*fake.engine, greedy(counting(20, 1), 0));
    EXPECT_NE(answer.failure.find("a step failed (the fake GPU has failed)"), std::string::npos) << answer.failure;
  }
}

// Ranks that cannot speak to one another again after a step was given up: no later step may trust their sums.
TEST(Ranks, CommunicationThatIsLostEndsTheEngine) {
  FakeEngine fake = start_fake_engine({.num_ranks = 2}, small_config(64));
  fake.backends[1]->comm().lasting_failure = "the fake ranks are apart";
  fake.models[0]->out_of_memory_at = fake.models[0]->forwards + 2;
  const Answer answer = ask(*fake.engine, greedy(counting(20, 1), 0));
  EXPECT_NE(answer.failure.find("a step failed (the fake ranks are apart)"), std::string::npos) << answer.failure;
}

// 4 of 40 pages of each rank hold nothing; all ranks' bytes are told, and the pages of one.
TEST(Ranks, FactsTellWhatIsOnEachAndInAll) {
  const FakeEngine alone = start_fake_engine({}, small_config(40));
  const FakeEngine shared = start_fake_engine({.num_ranks = 2}, small_config(40));
  const EngineFacts& one = alone.engine->facts();
  const EngineFacts& two = shared.engine->facts();
  EXPECT_EQ(two.num_ranks, 2);
  EXPECT_EQ(two.capacity_tokens, one.capacity_tokens);
  EXPECT_EQ(two.kv_bytes_per_token, 2 * one.kv_bytes_per_token);
  EXPECT_EQ(two.kv_cache_bytes, 2 * one.kv_cache_bytes);
  EXPECT_EQ(two.activation_bytes, 2 * one.activation_bytes);
  EXPECT_EQ(two.capacity_derivation, one.capacity_derivation + ", on each of 2 ranks");
  ASSERT_EQ(two.kv_report.size(), 1u);
  EXPECT_EQ(two.kv_report[0], one.kv_report[0] + " on each of 2 ranks");
}

// Devices with memory of their own, of which other processes hold different parts: all ranks have the same pages.
TEST(Ranks, TheCacheFitsTheDeviceThatHasLeast) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const auto group = std::make_shared<FakeRanks>(2);
  auto loaded = std::make_shared<LoadedModel>();
  for (int rank = 0; rank < 2; ++rank) {
    auto backend = std::make_unique<FakeBackend>(group, rank);
    backend->device().dedicated = true;
    backend->device().available = 1024 * kMiB;
    backend->device().others = rank == 1 ? 750 * kMiB : 0;  // 256 MiB are spared
    loaded->ranks.push_back({.backend = std::move(backend),
                             .model = std::make_unique<FakeModel>(40, 1 << 12, std::vector<int>{0}),
                             .weights = {}});
  }
  loaded->threads = start_threads(loaded->ranks);
  EngineConfig config = small_config(1);
  config.kv_cache_bytes.reset();
  const auto engine = Engine::create(config, loaded);
  ASSERT_TRUE(engine) << engine.error().message();
  const EngineFacts& facts = (*engine)->facts();
  EXPECT_NE(facts.capacity_derivation.find("free on the device, less 256.0 MiB to spare"), std::string::npos)
      << facts.capacity_derivation;
  EXPECT_TRUE(facts.capacity_derivation.ends_with(", on each of 2 ranks")) << facts.capacity_derivation;
  EXPECT_GT(facts.kv_cache_bytes, 2 * 16 * kMiB);
  EXPECT_LE(facts.kv_cache_bytes, 2 * 18 * kMiB);
  Request request = greedy(counting(20, 3), 9);
  const auto& truth = static_cast<const FakeModel&>(*loaded->ranks[0].model);
  expect_same(ask(**engine, request), expected_answer(truth, request, facts.max_model_len));
}

TEST(Ranks, ThreadsTellTheFirstFailureAndGoOn) {
  const auto group = std::make_shared<FakeRanks>(3);
  std::vector<FakeComm> comms;
  for (int rank = 0; rank < 3; ++rank) comms.emplace_back(group, rank);
  RankThreads threads({&comms[0], &comms[1], &comms[2]});
  std::vector<std::thread::id> first(3), second(3);
  const auto note = [](std::vector<std::thread::id>& ids) {
    return [&ids](int rank) -> Status {
      ids[static_cast<std::size_t>(rank)] = std::this_thread::get_id();
      return {};
    };
  };
  EXPECT_TRUE(threads.run(note(first)));
  const Status failed = threads.run([&](int rank) -> Status {
    if (rank > 0) return Error("rank " + std::to_string(rank));
    float number = 1;  // waits for nobody
    comms[0].all_reduce(Tensor(&number, DType::f32, {1}));
    return {};
  });
  EXPECT_EQ(failed.error().message(), "rank 1");
  EXPECT_THROW((void)threads.run([](int rank) -> Status {
    if (rank == 2) throw std::bad_alloc();
    return {};
  }),
               std::bad_alloc);
  EXPECT_TRUE(threads.run(note(second)));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first[0], std::this_thread::get_id());
  EXPECT_NE(first[1], first[2]);
}

}  // namespace
}  // namespace octavo
