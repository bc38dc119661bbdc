#include "tool/verb_timeline.h"

#include <gtest/gtest.h>

#include "engine/fake_backend.h"
#include "tool/timed_backend.h"

namespace octavo {
namespace {

TEST(VerbTimeline, SumsVerbsAndGapsByTheMedianStep) {
  const auto step = [](double slower) {
    StepCalls calls{.num_tokens = 1, .num_decodes = 1, .max_context = 70, .calls = {}};
    calls.calls = {{"plan_attention", 10, 11, 8},
                   {"linear", 12, 14 + slower, 100, 7, "a"},
                   {"attention", 15 + slower, 18 + slower, 50},
                   {"linear", 18 + slower, 19 + slower, 100, 7, "a"},
                   {"linear", 19 + slower, 20 + slower, 40, 3, "b"}};
    return calls;
  };
  const StepSummary summary = summarise({step(0), step(1), step(100)});
  EXPECT_EQ(summary.num_steps, 3);
  EXPECT_EQ(summary.max_context, 70);
  EXPECT_DOUBLE_EQ(summary.ms, 11);
  EXPECT_DOUBLE_EQ(summary.gaps_ms, 2);  // 11 to 12, and one before attention
  EXPECT_EQ(summary.bytes, 298);
  ASSERT_EQ(summary.verbs.size(), 4u);
  EXPECT_EQ(summary.verbs[0].verb, "linear");
  EXPECT_EQ(summary.verbs[0].kind, "a");
  EXPECT_EQ(summary.verbs[0].calls, 2);
  EXPECT_DOUBLE_EQ(summary.verbs[0].ms, 4);
  EXPECT_EQ(summary.verbs[0].bytes, 200);
  EXPECT_EQ(summary.verbs[0].operations, 14);
  EXPECT_EQ(summary.verbs[1].verb, "attention");
  EXPECT_EQ(summary.verbs[2].ms + summary.verbs[3].ms, 2);  // plan_attention, and linear on the other kind
}

TEST(TimedBackend, ForwardsEachVerbAndCountsEachOperandOnce) {
  VerbTimeline timeline;
  TimedBackend backend(std::make_unique<FakeBackend>(), timeline);
  std::vector<float> numbers(64);
  const Tensor x(numbers.data(), DType::f32, {4, 16});
  const Tensor half(numbers.data(), DType::bf16, {4, 16});
  std::vector<std::int32_t> contexts = {9, 4};
  std::vector<std::int32_t> starts = {0, 1, 5};
  BatchView batch;
  batch.num_seqs = 2;
  batch.num_decodes = 1;
  batch.num_tokens = 5;
  batch.max_context = 9;
  batch.context = Tensor(contexts.data(), DType::i32, {2});
  batch.query_start = Tensor(starts.data(), DType::i32, {3});
  AttentionPlan plan;
  Weight weight;
  weight.parts.emplace_back().values = Tensor(numbers.data(), DType::bf16, {2, 16});
  weight.out = 2;
  weight.in = 16;

  backend.ops().add({.a = x, .b = x, .out = x});  // before any step: nobody's
  backend.ops().plan_attention({.batch = batch, .shape = {}, .plan = plan});
  backend.ops().plan_attention({.batch = batch, .shape = {}, .plan = plan});  // another group of the same step
  backend.ops().add({.a = x, .b = half, .out = x});
  backend.ops().linear({.x = half, .weight = weight, .bias = {}, .out = Tensor(numbers.data(), DType::f32, {4, 2})});
  // Two sequences look back on 9 and 4 tokens of K and V, 2 heads of 8 in bf16; a window of 3 leaves 3 of the 9, and
  // all 4 of the chunk of four.
  KvView view;
  view.format = *grouped_format({}, KvElem::bf16, 2, 8, false);
  AttentionRule rule;
  const Query query{Tensor(numbers.data(), DType::f32, {5, 1, 8}), {}};  // its 160 bytes and those of out are counted
  const Tensor out(numbers.data(), DType::f32, {5, 1, 8});
  backend.ops().attention({.query = query, .kv = view, .batch = batch, .plan = plan, .rule = rule, .out = out});
  rule.window = 3;
  backend.ops().attention({.query = query, .kv = view, .batch = batch, .plan = plan, .rule = rule, .out = out});
  backend.ops().plan_attention({.batch = batch, .shape = {}, .plan = plan});

  ASSERT_EQ(timeline.steps().size(), 2u);
  const StepCalls& step = timeline.steps().front();
  EXPECT_EQ(step.num_tokens, 5);
  EXPECT_FALSE(step.decode());
  ASSERT_EQ(step.calls.size(), 6u);
  EXPECT_EQ(step.calls[2].bytes, 4 * 16 * (4 + 2 + 4));
  EXPECT_EQ(step.calls[3].bytes, 2 * 16 * 2 + 4 * 16 * 2 + 4 * 2 * 4);
  EXPECT_EQ(step.calls[3].operations, 2 * 4 * 2 * 16);
  EXPECT_EQ(step.calls[3].kind, "2 x 16 bf16");
  EXPECT_EQ(step.calls[4].bytes, (9 + 4) * 2 * 2 * 8 * 2 + 2 * 160);
  EXPECT_EQ(step.calls[5].bytes, (3 + 4) * 2 * 2 * 8 * 2 + 2 * 160);
  EXPECT_EQ(step.calls[4].kind, "full");
  EXPECT_EQ(step.calls[5].kind, "window 3");
  // One key of 8 and one value of 8 for each pair: the decode's 9, and 1 to 4 of the chunk; in the window no more
  // than 3.
  EXPECT_EQ(step.calls[4].operations, 2 * 16 * (9 + 1 + 2 + 3 + 4));
  EXPECT_EQ(step.calls[5].operations, 2 * 16 * (3 + 1 + 2 + 3 + 3));
  for (const VerbCall& call : step.calls) EXPECT_LE(call.begin_ms, call.end_ms);
}

// Greedy sampling comes out of the wrapped backend.
TEST(TimedBackend, GivesTheSameAnswers) {
  VerbTimeline timeline;
  TimedBackend backend(std::make_unique<FakeBackend>(), timeline);
  std::vector<float> logits = {0, 3, 1, 2};
  SampleRow row;
  row.temperature = 0;
  std::int32_t token = -1;
  SampleArgs args;
  args.logits = Tensor(logits.data(), DType::f32, {1, 4});
  args.rows = &row;
  args.out = Tensor(&token, DType::i32, {1});
  backend.ops().sample(args);
  EXPECT_EQ(token, 1);
}

}  // namespace
}  // namespace octavo
