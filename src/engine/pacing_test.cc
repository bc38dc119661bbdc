// --max-itl-ms, fairness and want of memory, on a machine whose steps take a known time. No clock is looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>

#include "engine/failing_memory.h"
#include "engine/scheduler.h"

namespace octavo {
namespace {

constexpr int kPage = 8;

std::shared_ptr<Sequence> numbered_sequence(std::uint64_t number, int size, int max_tokens, std::string caller = "",
                                            int priority = 0) {
  auto sequence = std::make_shared<Sequence>();
  sequence->id = std::to_string(number);
  sequence->number = number;
  sequence->caller = std::move(caller);
  sequence->priority = priority;
  sequence->max_tokens = max_tokens;
  sequence->prompt_size = size;
  for (int i = 0; i < size; ++i) sequence->tokens.push_back(static_cast<std::int32_t>(number * 100000) + i);
  return sequence;
}

// A scheduler, and a machine that carries its steps out.
class Machine {
 public:
  Machine(const SchedulerLimits& limits, int num_pages)
      : ledger_(kPage, std::vector<PoolSpec>{{Lifetime::full, 0, num_pages + 1}}, limits.prefix_caching),
        scheduler_(limits, ledger_, groups()) {}

  Scheduler& scheduler() { return scheduler_; }
  KvLedger& ledger() { return ledger_; }

  StepPlan step(const std::function<double(const StepPlan&)>& milliseconds = {}) {
    StepPlan plan = scheduler_.plan();
    run(plan, milliseconds);
    return plan;
  }

  void run(const StepPlan& plan, const std::function<double(const StepPlan&)>& milliseconds = {}) {
    scheduler_.advance(plan);
    if (milliseconds) scheduler_.measured(plan, milliseconds(plan));
    scheduler_.settle(plan);
    for (std::size_t row = 0; row < plan.num_sampled(); ++row) {
      const auto sequence = plan.sequences[plan.rows[row].entry].sequence;
      if (!sequence->accept(1, {}).finish) continue;
      scheduler_.finish(sequence);
      ended.push_back(sequence->id);
    }
    ledger_.check_invariants();
  }

  std::vector<std::string> ended;

 private:
  static std::vector<CacheGroup> groups() {
    CacheGroup group;
    group.layers.push_back({0, *grouped_format({}, KvElem::bf16, 1, 8, false)});
    return {group};
  }

  KvLedger ledger_;
  Scheduler scheduler_;
};

// 10 ms, 2 a decode, 1 a token of a prompt and 1 for 10,000 pairs.
double known_milliseconds(const StepPlan& plan) {
  double sum = 10;
  for (const PlannedSequence& entry : plan.sequences) {
    if (entry.count == 1)
      sum += 2;
    else
      for (int i = 0; i < entry.count; ++i) sum += 1 + (entry.first + i + 1) / 10000.0;
  }
  return sum;
}

SchedulerLimits paced(double max_itl_ms) {
  return {.max_tokens = 2048, .max_seqs = 8, .max_rows = 64, .max_itl_ms = max_itl_ms, .prefix_caching = false};
}

TEST(Pacing, StreamsWaitNoLongerThanAskedWhileLongPromptsComeAllTheTime) {
  Machine machine(paced(100), 5000);
  for (std::uint64_t i = 0; i < 4; ++i) machine.scheduler().add(numbered_sequence(i, 20, 2000));
  machine.step(known_milliseconds);
  int num_prompts = 0;
  int prefilled = 0;
  double longest = 0;
  double busy = 0;
  for (int i = 0; i < 1000; ++i) {
    if (machine.scheduler().num_running() == 4 && machine.scheduler().num_waiting() == 0)
      machine.scheduler().add(numbered_sequence(static_cast<std::uint64_t>(10 + num_prompts++), 8000, 1));
    const StepPlan plan = machine.step(known_milliseconds);
    ASSERT_GE(plan.num_decodes, 4) << "every stream gets a token in every step";
    longest = std::max(longest, known_milliseconds(plan));
    busy += known_milliseconds(plan);
    for (const PlannedSequence& entry : plan.sequences) prefilled += entry.count > 1 ? entry.count : 0;
  }
  EXPECT_LE(longest, 105);
  EXPECT_GT(busy / 1000, 90) << "and what may be used is used";
  EXPECT_GT(prefilled, 55 * 1000) << "of which half a prompt's length is behind costs 1.4 ms: 58 fit";
}

TEST(Pacing, WithoutStreamsAPromptTakesTheWholeStep) {
  Machine machine(paced(100), 5000);
  machine.scheduler().add(numbered_sequence(0, 6000, 4));
  EXPECT_EQ(machine.step(known_milliseconds).ids.size(), 2048u);
  EXPECT_EQ(machine.step(known_milliseconds).ids.size(), 2048u);
}

TEST(Pacing, AStepWithStreamsTakesNoMoreTokensThanItsBound) {
  Machine machine({.max_tokens = 512, .max_seqs = 80, .max_rows = 80, .mixed_tokens = 64, .prefix_caching = false},
                  5000);
  for (std::uint64_t i = 0; i < 3; ++i) machine.scheduler().add(numbered_sequence(i, 100, 2000));
  EXPECT_EQ(machine.step().ids.size(), 300u) << "nobody waits yet";
  for (std::uint64_t i = 3; i < 60; ++i) machine.scheduler().add(numbered_sequence(i, 40, 2000));
  std::size_t decodes = 0;
  while (machine.scheduler().num_waiting() > 0 || decodes < 60) {
    const StepPlan plan = machine.step();
    ASSERT_GT(plan.num_decodes, static_cast<int>(decodes) - 1) << "every stream gets a token in every step";
    decodes = static_cast<std::size_t>(plan.num_decodes);
    ASSERT_LE(plan.ids.size(), std::max<std::size_t>(64, decodes + 16));
    ASSERT_TRUE(decodes != 3 || plan.ids.size() == 64) << "what is left goes to prompts";
  }
}

TEST(Pacing, APromptComesToItsEndHoweverSmallTheBoundOfAStep) {
  Machine machine({.max_tokens = 512, .max_seqs = 8, .max_rows = 8, .mixed_tokens = 1, .prefix_caching = false}, 5000);
  for (std::uint64_t i = 0; i < 3; ++i) machine.scheduler().add(numbered_sequence(i, 10, 500));
  machine.step();
  machine.scheduler().add(numbered_sequence(3, 20, 1));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(machine.step().ids.size(), 3u + 1u);
  EXPECT_EQ(machine.ended, std::vector<std::string>{"3"});
}

// Where the streams alone take longer than asked, a prompt still comes to its end.
TEST(Pacing, APromptIsNeverStarved) {
  Machine machine(paced(1), 5000);
  machine.scheduler().add(numbered_sequence(0, 4, 500));
  machine.step(known_milliseconds);
  machine.scheduler().add(numbered_sequence(1, 40, 1));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(machine.step(known_milliseconds).ids.size(), 1u + 4u);
  EXPECT_EQ(machine.ended, std::vector<std::string>{"1"});
}

TEST(Pacing, OnePromptTakesNoMoreThanItsThresholdAndLeavesTheRest) {
  Machine machine({.max_tokens = 100, .max_seqs = 4, .max_rows = 8, .max_chunk = 30}, 500);
  machine.scheduler().add(numbered_sequence(1, 70, 1));
  machine.scheduler().add(numbered_sequence(2, 90, 1));
  using Counts = std::map<std::string, int>;
  const auto counts = [](const StepPlan& plan) {
    Counts taken;
    for (const PlannedSequence& entry : plan.sequences) taken[entry.sequence->id] = entry.count;
    return taken;
  };
  EXPECT_EQ(counts(machine.step()), (Counts{{"1", 30}, {"2", 30}}));
  EXPECT_EQ(counts(machine.step()), (Counts{{"1", 30}, {"2", 30}}));
  EXPECT_EQ(counts(machine.step()), (Counts{{"1", 10}, {"2", 30}}));
}

struct Asked {
  std::string caller;
  int priority = 0;
  int prompt = 10;
  int answer = 1;
};

// Serves one request at a time, written down as simply as the rule reads: of the smallest priority the caller that had
// the fewest tokens, of its requests the oldest. All requests are there from the beginning.
std::vector<std::string> one_at_a_time(const std::vector<Asked>& asked) {
  std::map<std::pair<int, std::string>, int> had;
  std::vector<bool> done(asked.size());
  std::vector<std::string> order;
  while (order.size() < asked.size()) {
    std::size_t best = asked.size();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (done[i]) continue;
      const auto key = [&](std::size_t r) {
        return std::tuple(asked[r].priority, had[{asked[r].priority, asked[r].caller}], r);
      };
      if (best == asked.size() || key(i) < key(best)) best = i;
    }
    done[best] = true;
    order.push_back(std::to_string(best));
    had[{asked[best].priority, asked[best].caller}] += asked[best].prompt + asked[best].answer - 1;
  }
  return order;
}

std::vector<std::string> served(const std::vector<Asked>& asked) {
  Machine machine({.max_tokens = 1000, .max_seqs = 1, .max_rows = 8, .prefix_caching = false}, 500);
  for (std::size_t i = 0; i < asked.size(); ++i)
    machine.scheduler().add(numbered_sequence(i, asked[i].prompt, asked[i].answer, asked[i].caller, asked[i].priority));
  while (!machine.scheduler().idle()) machine.step();
  return machine.ended;
}

TEST(Fairness, AThousandRequestsOfOneCallerDoNotStandBeforeTheOneOfAnother) {
  std::vector<Asked> asked(1000, {.caller = "many"});
  asked.push_back({.caller = "one"});
  const auto order = served(asked);
  EXPECT_EQ(order, one_at_a_time(asked));
  EXPECT_EQ(order[1], "1000");
}

TEST(Fairness, CallersShareTokensNotRequests) {
  std::vector<Asked> asked;
  for (int i = 0; i < 6; ++i) asked.push_back({.caller = "long", .prompt = 30});
  for (int i = 0; i < 9; ++i) asked.push_back({.caller = "short", .prompt = 10});
  const std::vector<std::string> wanted = {"0", "6",  "7",  "8",  "1", "9", "10", "11",
                                           "2", "12", "13", "14", "3", "4", "5"};
  EXPECT_EQ(one_at_a_time(asked), wanted);
  EXPECT_EQ(served(asked), wanted);
}

TEST(Fairness, TheOrderIsThatOfTheSimpleRule) {
  std::mt19937 random(3);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 50; ++round) {
    std::vector<Asked> asked;
    for (int i = pick(1, 40); i > 0; --i)
      asked.push_back({.caller = std::string(1, static_cast<char>('a' + pick(0, 3))),
                       .priority = pick(-1, 1),
                       .prompt = pick(1, 50),
                       .answer = pick(1, 20)});
    EXPECT_EQ(served(asked), one_at_a_time(asked)) << round;
  }
}

// Newcomers for ever, each with a name of its own, as many as a bounded queue lets in: the caller that had much before
// is served all the same.
TEST(Fairness, NobodyIsPutOffForEverByNewcomers) {
  Machine machine({.max_tokens = 1000, .max_seqs = 1, .max_rows = 8, .prefix_caching = false}, 500);
  std::uint64_t number = 0;
  for (; number < 20; ++number) machine.scheduler().add(numbered_sequence(number, 100, 1, "old"));
  for (int i = 0; i < 10; ++i) machine.step();
  int steps = 0;
  while (std::count(machine.ended.begin(), machine.ended.end(), "19") == 0) {
    for (; machine.scheduler().num_waiting() < 30; ++number)
      machine.scheduler().add(numbered_sequence(number, 100, 1, "new" + std::to_string(number)));
    machine.step();
    ASSERT_LT(++steps, 2000);
  }
}

// While nobody else came a caller had all there was; that is not held against it for longer than it takes to compute
// 16,384 tokens of another's.
TEST(Fairness, ALonelyPastIsForgotten) {
  Machine machine({.max_tokens = 1000, .max_seqs = 1, .max_rows = 8, .prefix_caching = false}, 500);
  std::uint64_t number = 0;
  machine.scheduler().add(numbered_sequence(number++, 1, 1, "guest"));
  for (; number < 100; ++number) machine.scheduler().add(numbered_sequence(number, 1000, 1, "old"));
  for (int i = 0; i < 90; ++i) machine.step();
  machine.ended.clear();
  for (int i = 0; i < 100; ++i) machine.scheduler().add(numbered_sequence(number++, 1000, 1, "guest"));
  for (int i = 0; i < 40; ++i) machine.step();
  EXPECT_GE(std::count_if(machine.ended.begin(), machine.ended.end(), [](const auto& id) { return id.size() < 3; }), 8);
}

// Prompts of two callers advance side by side, whatever their lengths.
TEST(Fairness, AShortPromptDoesNotWaitForALongOne) {
  Machine machine({.max_tokens = 100, .max_seqs = 4, .max_rows = 8}, 1000);
  machine.scheduler().add(numbered_sequence(1, 5000, 1, "long"));
  machine.step();
  machine.scheduler().add(numbered_sequence(2, 150, 1, "short"));
  for (int i = 0; i < 4; ++i) machine.step();
  EXPECT_EQ(machine.ended, std::vector<std::string>{"2"});
}

// The one let in last gives way; what it had is computed again at nobody's charge.
TEST(Fairness, PreemptionTakesTheLastOneLetInAndChargesNothingTwice) {
  Machine machine({.max_tokens = 100, .max_seqs = 4, .max_rows = 8, .prefix_caching = false}, 6);
  const auto first = numbered_sequence(5, 14, 30, "a"), second = numbered_sequence(2, 14, 20, "b");
  machine.scheduler().add(first);
  machine.step();
  machine.scheduler().add(second);
  while (machine.scheduler().counts().preemptions == 0) machine.step();
  EXPECT_EQ(second->cache, -1) << "it came first, but was let in last";
  while (machine.ended.size() < 2) machine.step();
  EXPECT_EQ(machine.ended, (std::vector<std::string>{"5", "2"}));
  EXPECT_EQ(first->charged, 14 + 30 - 1);
  EXPECT_EQ(second->charged, 14 + 20 - 1);
}

// Each allocation of a plan fails once: one request pays, nothing is lost or held, and the others come to their ends.
TEST(WantOfMemory, CostsOneRequest) {
  int failures = 0;
  for (int allowed = 0;; ++allowed) {
    Machine machine({.max_tokens = 40, .max_seqs = 8, .max_rows = 8}, 30);
    for (std::uint64_t i = 0; i < 6; ++i)
      machine.scheduler().add(numbered_sequence(i, 10 + static_cast<int>(i) * 7, 12, i % 2 == 0 ? "a" : "b"));
    FailingMemory memory(allowed);
    int given_up = 0;
    while (!machine.scheduler().idle()) {
      std::optional<StepPlan> plan;
      memory.arm();
      try {
        plan.emplace(machine.scheduler().plan());
      } catch (const std::bad_alloc&) {
      }
      memory.disarm();
      machine.ledger().check_invariants();
      if (plan) {
        machine.run(*plan);
        continue;
      }
      ++given_up;
      const auto sequence = machine.scheduler().blamed();
      ASSERT_TRUE(sequence);
      machine.scheduler().finish(sequence);
    }
    EXPECT_LE(given_up, 1);
    EXPECT_EQ(machine.ended.size() + static_cast<std::size_t>(given_up), 6u);
    EXPECT_EQ(machine.ledger().use(0).held, 0);
    failures += given_up;
    if (given_up == 0) break;
  }
  EXPECT_GT(failures, 20);
}

}  // namespace
}  // namespace octavo
