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
                   {"linear", 12, 14 + slower, 100},
                   {"attention", 15 + slower, 18 + slower, 50},
                   {"linear", 18 + slower, 20 + slower, 100}};
    return calls;
  };
  const StepSummary summary = summarise({step(0), step(1), step(100)});
  EXPECT_EQ(summary.num_steps, 3);
  EXPECT_EQ(summary.max_context, 70);
  EXPECT_DOUBLE_EQ(summary.ms, 11);
  EXPECT_DOUBLE_EQ(summary.gaps_ms, 2);  // 11 to 12, and one before attention
  ASSERT_EQ(summary.verbs.size(), 3u);
  EXPECT_EQ(summary.verbs[0].verb, "linear");
  EXPECT_EQ(summary.verbs[0].calls, 2);
  EXPECT_DOUBLE_EQ(summary.verbs[0].ms, 5);
  EXPECT_EQ(summary.verbs[0].bytes, 200);
  EXPECT_EQ(summary.verbs[1].verb, "attention");
  EXPECT_EQ(summary.verbs[2].verb, "plan_attention");
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
  backend.ops().attention({.query = {}, .kv = view, .batch = batch, .plan = plan, .rule = rule, .out = {}});
  rule.window = 3;
  backend.ops().attention({.query = {}, .kv = view, .batch = batch, .plan = plan, .rule = rule, .out = {}});
  backend.ops().plan_attention({.batch = batch, .shape = {}, .plan = plan});

  ASSERT_EQ(timeline.steps().size(), 2u);
  const StepCalls& step = timeline.steps().front();
  EXPECT_EQ(step.num_tokens, 5);
  EXPECT_FALSE(step.decode());
  ASSERT_EQ(step.calls.size(), 6u);
  EXPECT_EQ(step.calls[2].bytes, 4 * 16 * (4 + 2 + 4));
  EXPECT_EQ(step.calls[3].bytes, 2 * 16 * 2 + 4 * 16 * 2 + 4 * 2 * 4);
  EXPECT_EQ(step.calls[4].bytes, (9 + 4) * 2 * 2 * 8 * 2);
  EXPECT_EQ(step.calls[5].bytes, (3 + 4) * 2 * 2 * 8 * 2);
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
