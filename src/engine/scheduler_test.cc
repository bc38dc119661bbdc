#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <random>

namespace octavo {
namespace {

CacheGroup full_group() {
  CacheGroup group;
  group.layers.push_back({0, *grouped_format({}, KvElem::bf16, 1, 8, false)});
  return group;
}

std::shared_ptr<Sequence> sequence_of(int size, std::uint64_t number, int priority = 0, int max_tokens = 4) {
  auto sequence = std::make_shared<Sequence>();
  sequence->id = std::to_string(number);
  sequence->number = number;
  sequence->priority = priority;
  sequence->max_tokens = max_tokens;
  sequence->prompt_size = size;
  for (int i = 0; i < size; ++i) sequence->tokens.push_back(static_cast<std::int32_t>(number) * 100 + i);
  return sequence;
}

// A scheduler over a pool of so many pages of 8 tokens, whose steps are carried out at once: every sampled token is 1.
class SchedulerTest : public testing::Test {
 protected:
  void start(const SchedulerLimits& limits, int num_pages) {
    ledger_ =
        std::make_unique<KvLedger>(8, std::vector<PoolSpec>{{Lifetime::full, 0, num_pages + 1}}, limits.prefix_caching);
    scheduler_ = std::make_unique<Scheduler>(limits, *ledger_, std::vector<CacheGroup>{full_group()});
  }

  // What a step is made of: "number:count", in the plan's order.
  std::string step() {
    const StepPlan& plan = plan_ = scheduler_->plan();
    std::string text;
    for (const PlannedSequence& entry : plan.sequences)
      text += (text.empty() ? "" : " ") + entry.sequence->id + ":" + std::to_string(entry.count);
    ledger_->check_invariants();
    scheduler_->advance(plan);
    scheduler_->settle(plan);
    for (std::size_t row = 0; row < plan.num_sampled(); ++row) {
      const auto sequence = plan.sequences[plan.rows[row].entry].sequence;
      if (sequence->accept(1, {}).finish) scheduler_->finish(sequence);
    }
    ledger_->check_invariants();
    return text;
  }

  // One that waits for this one's prompt.
  void add_follower(const std::shared_ptr<Sequence>& leader) {
    auto follower = std::make_shared<Sequence>(*leader);
    follower->index = ++leader->awaiting;
    follower->awaiting = 0;
    follower->leader = leader;
    scheduler_->add(follower);
  }

  StepPlan plan_;  // of the last step
  std::unique_ptr<KvLedger> ledger_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerTest, DecodesComeFirstAndChunksFillTheRest) {
  start({.max_tokens = 16, .max_seqs = 4, .max_rows = 8}, 100);
  scheduler_->add(sequence_of(10, 1));
  EXPECT_EQ(step(), "1:10");
  scheduler_->add(sequence_of(40, 2));
  scheduler_->add(sequence_of(3, 3));
  EXPECT_EQ(step(), "1:1 2:15");
  EXPECT_EQ(step(), "1:1 2:15");
  EXPECT_EQ(step(), "1:1 2:10 3:3");
  EXPECT_EQ(step(), "2:1 3:1");
}

TEST_F(SchedulerTest, PriorityGoesBeforeArrival) {
  start({.max_tokens = 8, .max_seqs = 4, .max_rows = 8}, 100);
  scheduler_->add(sequence_of(8, 1));
  scheduler_->add(sequence_of(8, 2, -1));
  EXPECT_EQ(step(), "2:8");
}

TEST_F(SchedulerTest, TheFirstInOrderProgressesBesideManyDecodes) {
  start({.max_tokens = 2, .max_seqs = 4, .max_rows = 8}, 100);
  scheduler_->add(sequence_of(1, 1, 0, 30));
  scheduler_->add(sequence_of(1, 2, 0, 30));
  EXPECT_EQ(step(), "1:1 2:1");
  scheduler_->add(sequence_of(6, 3, -1));
  EXPECT_EQ(step(), "1:1 2:1");  // not let in before there is budget
  for (int i = 0; i < 28; ++i) step();
  EXPECT_EQ(step(), "3:2");
}

TEST_F(SchedulerTest, NobodyOvertakesTheFirstOneWaiting) {
  start({.max_tokens = 100, .max_seqs = 4, .max_rows = 8}, 10);
  scheduler_->add(sequence_of(48, 1, 0, 2));
  scheduler_->add(sequence_of(60, 2));  // 8 pages: not beside the 6 of the first
  scheduler_->add(sequence_of(4, 3));
  EXPECT_EQ(step(), "1:48");
  EXPECT_EQ(step(), "1:1");
  EXPECT_EQ(step(), "2:60 3:4");
}

TEST_F(SchedulerTest, TheLastInOrderGivesItsPagesBack) {
  start({.max_tokens = 100, .max_seqs = 4, .max_rows = 8, .prefix_caching = false}, 4);
  scheduler_->add(sequence_of(14, 1, 0, 20));
  scheduler_->add(sequence_of(14, 2, 0, 20));
  EXPECT_EQ(step(), "1:14");  // 2 would leave no page to grow into
  start({.max_tokens = 100, .max_seqs = 4, .max_rows = 8, .prefix_caching = false}, 6);
  scheduler_->add(sequence_of(14, 1, 0, 30));
  scheduler_->add(sequence_of(14, 2, 0, 20));
  EXPECT_EQ(step(), "1:14 2:14");
  int steps = 1;
  std::string planned;
  while ((planned = step()) == "1:1 2:1") ++steps;
  EXPECT_EQ(steps, 11);  // 3 pages each hold 24 tokens; the 25th of the first takes from the second
  EXPECT_EQ(planned, "1:1");
  EXPECT_EQ(scheduler_->counts().preemptions, 1u);
  EXPECT_EQ(ledger_->use(0).held, 4);
  while (scheduler_->num_waiting() > 0) planned = step();
  EXPECT_EQ(planned, "2:25");  // all that it had, computed again
}

TEST_F(SchedulerTest, FollowersBeginWithACopyOfTheLeadersLastPage) {
  start({.max_tokens = 100, .max_seqs = 2, .max_rows = 8}, 100);
  const auto leader = sequence_of(13, 1, 0, 1);
  for (int i = 0; i < 3; ++i) add_follower(leader);
  scheduler_->add(leader);
  EXPECT_EQ(step(), "1:13");
  EXPECT_EQ(ledger_->use(0).held, 2) << "it has ended, and the others wait for its pages";
  const std::int32_t kept = plan_.groups[0].pages[1];
  EXPECT_EQ(step(), "1:1 1:1");
  EXPECT_EQ(plan_.positions, (std::vector<std::int32_t>{12, 12}));
  ASSERT_EQ(plan_.copies.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(plan_.copies[i].from, kept);
    EXPECT_EQ(plan_.copies[i].to, plan_.groups[0].pages[2 * i + 1]);
    EXPECT_NE(plan_.copies[i].to, kept);
  }
  EXPECT_EQ(step(), "1:1");
  EXPECT_EQ(plan_.copies.at(0).from, kept);
  EXPECT_TRUE(scheduler_->idle());
  EXPECT_EQ(ledger_->use(0).held, 0);
  EXPECT_EQ(scheduler_->counts().cached_prompt_tokens, 3u * 12u);
}

TEST_F(SchedulerTest, WhatIsKeptForFollowersGoesBeforeAnybodyWaits) {
  start({.max_tokens = 100, .max_seqs = 2, .max_rows = 8}, 4);
  const auto leader = sequence_of(13, 1, 0, 1);
  add_follower(leader);
  scheduler_->add(leader);
  EXPECT_EQ(step(), "1:13");
  scheduler_->add(sequence_of(25, 2, -1, 1));
  EXPECT_EQ(step(), "2:25");  // all four pages
  EXPECT_EQ(step(), "1:13");
  EXPECT_TRUE(plan_.copies.empty());
  EXPECT_EQ(ledger_->use(0).held, 0);
}

TEST_F(SchedulerTest, APlanThatWasGivenUpHasCopiedNothing) {
  start({.max_tokens = 100, .max_seqs = 4, .max_rows = 8}, 100);
  const auto leader = sequence_of(13, 1, 0, 3);
  add_follower(leader);
  scheduler_->add(leader);
  EXPECT_EQ(step(), "1:13");
  EXPECT_EQ(scheduler_->plan().copies.size(), 1u);
  EXPECT_EQ(step(), "1:1 1:5");  // the page itself is shared, what follows is not believed to be there
  EXPECT_TRUE(plan_.copies.empty());
}

TEST_F(SchedulerTest, NothingIsCopiedThatRestsOnAForgottenCache) {
  start({.max_tokens = 100, .max_seqs = 4, .max_rows = 8}, 100);
  const auto leader = sequence_of(13, 1, 0, 3);
  add_follower(leader);
  scheduler_->add(leader);
  EXPECT_EQ(step(), "1:13");
  ledger_->reset_prefix_cache();
  EXPECT_EQ(step(), "1:1 1:13");
  EXPECT_TRUE(plan_.copies.empty());
}

TEST_F(SchedulerTest, RowsOfLogitsAreRationed) {
  start({.max_tokens = 100, .max_seqs = 2, .max_rows = 10}, 100);
  auto asking = sequence_of(30, 1);
  asking->prompt_logprobs = 1;
  scheduler_->add(asking);
  const StepPlan plan = scheduler_->plan();
  EXPECT_EQ(plan.rows.size(), 10u);
  EXPECT_EQ(plan.sequences[0].count, 10);
  EXPECT_EQ(plan.num_sampled(), 0u);
  EXPECT_EQ(plan.rows[9].next_id, asking->tokens[10]);
}

TEST_F(SchedulerTest, APlanIsCompleteInItself) {
  start({.max_tokens = 100, .max_seqs = 4, .max_rows = 8}, 100);
  scheduler_->add(sequence_of(11, 1));
  step();
  scheduler_->add(sequence_of(9, 2));
  const StepPlan plan = scheduler_->plan();
  EXPECT_EQ(plan.num_decodes, 1);
  EXPECT_EQ(plan.ids, (std::vector<std::int32_t>{1, 200, 201, 202, 203, 204, 205, 206, 207, 208}));
  EXPECT_EQ(plan.positions, (std::vector<std::int32_t>{11, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(plan.groups[0].begin, (std::vector<std::size_t>{0, 2, 4}));
  ASSERT_EQ(plan.rows.size(), 2u);
  EXPECT_EQ(plan.rows[0].token_row, 0);
  EXPECT_EQ(plan.rows[1].token_row, 9);
  EXPECT_EQ(plan.sampling.rows[0].position, 12u);
  EXPECT_EQ(plan.sampling.rows[1].position, 9u);
}

TEST_F(SchedulerTest, EverythingEndsInEveryPool) {
  std::mt19937 random(5);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 60; ++round) {
    const SchedulerLimits limits{
        .max_tokens = pick(1, 40), .max_seqs = pick(1, 8), .max_rows = 8, .prefix_caching = pick(0, 1) == 1};
    start(limits, pick(8, 20));
    for (std::uint64_t i = 0; i < 20; ++i) scheduler_->add(sequence_of(pick(1, 40), i, pick(0, 1), pick(1, 24)));
    int steps = 0;
    while (!scheduler_->idle()) {
      step();
      ASSERT_LT(++steps, 20000);
    }
    EXPECT_EQ(ledger_->use(0).held, 0);
  }
}

}  // namespace
}  // namespace octavo
