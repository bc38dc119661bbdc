#include "engine/memory_plan.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

CacheGroup group_of(int num_layers, int window = 0) {
  CacheGroup group;
  group.lifetime = window > 0 ? Lifetime::window : Lifetime::full;
  group.window = window;
  for (int i = 0; i < num_layers; ++i) group.layers.push_back({i, *grouped_format({}, KvElem::bf16, 3, 64, false)});
  return group;  // 768 bytes a token and layer
}

// 48 layers of 128 x 128 x 48 numbers and a convolution's tail: 147.8 MiB a sequence.
CacheGroup states() {
  CacheGroup group;
  group.lifetime = Lifetime::state;
  group.state_parts = {3 * 10240, 48 * 128 * 128};
  group.layers.resize(48);
  return group;
}

constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;

// SmolLM2-135M: 30 layers of 3 heads x 64, bfloat16: 23,040 bytes a token, 1,474,560 a page of 64.
TEST(MemoryPlan, CapacityFollowsFromBytesAndIsDerived) {
  const std::vector<CacheGroup> groups{group_of(30)};
  const auto plan =
      plan_memory({.groups = groups, .model_positions = 8192, .max_model_len = {}, .kv_cache_bytes = 300 * 1474560});
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->num_pages, std::vector<std::int32_t>{300});
  EXPECT_EQ(plan->capacity_tokens, 299 * 64);  // one page is the sink
  EXPECT_EQ(plan->bytes_per_token, 23040);
  EXPECT_EQ(plan->max_model_len, 8192);
  EXPECT_EQ(plan->derivation,
            "299 pages x 64 tokens = 19,136 tokens; 420.5 MiB = 19,136 x 23,040 bytes (--kv-cache-memory-bytes)");
}

TEST(MemoryPlan, AutoTakesEnoughForSomeSequencesButAQuarterAtMost) {
  const std::vector<CacheGroup> groups{group_of(30)};
  const MemoryRequest request{.groups = groups,
                              .model_positions = 8192,
                              .max_model_len = {},
                              .kv_cache_bytes = {},
                              .max_num_seqs = 4,
                              .available_bytes = 64 * kGibibyte};
  EXPECT_EQ(plan_memory(request)->capacity_tokens, 4 * 8192);
  MemoryRequest small = request;
  small.available_bytes = 2 * kGibibyte;  // a quarter holds more than one sequence of 180 MiB
  EXPECT_LE(plan_memory(small)->bytes, kGibibyte / 2);
  EXPECT_GT(plan_memory(small)->capacity_tokens, 2 * 8192);
  EXPECT_EQ(plan_memory(small)->max_model_len, 8192);
  small.available_bytes = 500 << 20;  // a quarter does not, half does
  EXPECT_EQ(plan_memory(small)->max_model_len, 8192);
  EXPECT_EQ(plan_memory(small)->capacity_tokens, 8192);
  small.available_bytes = 200 << 20;  // the length is what half of it holds
  EXPECT_EQ(plan_memory(small)->max_model_len, 70 * 64);
  EXPECT_EQ(plan_memory(small)->length_reason, "what fits into the KV cache");
}

TEST(MemoryPlan, AWantedLengthMayTakeAllThereIsAndNotMore) {
  const std::vector<CacheGroup> groups{group_of(30)};
  MemoryRequest request{.groups = groups,
                        .model_positions = 8192,
                        .max_model_len = 8192,
                        .kv_cache_bytes = {},
                        .max_num_seqs = 4,
                        .available_bytes = 200 << 20};
  EXPECT_EQ(plan_memory(request)->max_model_len, 8192);
  request.available_bytes = 100 << 20;
  EXPECT_EQ(plan_memory(request).error().message(),
            "one request of --max-model-len 8192 needs 181.4 MiB (190218240 bytes) of KV cache, but only 100.0 MiB are "
            "available: at most 4480 tokens fit, or twice as many in an 8-bit --kv-cache-dtype");
  EXPECT_EQ(plan_memory(request).error().kind(), ErrorKind::exhausted);
}

TEST(MemoryPlan, ALengthBeyondTheModelOrBelowOneIsRefused) {
  const std::vector<CacheGroup> groups{group_of(30)};
  MemoryRequest request{.groups = groups, .model_positions = 8192, .max_model_len = 9000, .kv_cache_bytes = kGibibyte};
  EXPECT_EQ(plan_memory(request).error().message(),
            "--max-model-len 9000 is more than the 8192 positions that the model was made for; --rope-scaling or "
            "--hf-overrides can extend them");
  request.max_model_len = 0;
  EXPECT_EQ(plan_memory(request).error().message(), "--max-model-len 0: it must be at least 1");
}

TEST(MemoryPlan, ACacheThatHoldsNoPageIsRefused) {
  const std::vector<CacheGroup> groups{group_of(30)};
  for (const std::int64_t bytes : {std::int64_t{-5}, std::int64_t{0}, std::int64_t{2 * 1474560 - 1}}) {
    const auto plan =
        plan_memory({.groups = groups, .model_positions = 8192, .max_model_len = {}, .kv_cache_bytes = bytes});
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message().find("does not hold a single page; 2949120 bytes are the least"),
              std::string::npos);
  }
}

// Window layers are charged for their window, not for the context: 50 of 60 layers with a window of 1,024 of 131,072.
TEST(MemoryPlan, WindowsAreChargedForWhatTheyKeep) {
  const std::vector<CacheGroup> groups{group_of(10), group_of(50, 1024)};
  const auto plan = plan_memory({.groups = groups,
                                 .model_positions = 131072,
                                 .max_model_len = {},
                                 .kv_cache_bytes = {},
                                 .max_num_seqs = 1,
                                 .available_bytes = 64 * kGibibyte});
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->bytes_per_token, 7680);
  EXPECT_EQ(plan->capacity_tokens, 131072);
  // 1,023 keys before a step of 2,048 tokens touch 49 pages at most.
  EXPECT_EQ(plan->num_pages, (std::vector<std::int32_t>{2049, 50}));
  EXPECT_LT(plan->bytes, std::int64_t{60} * 768 * 131072 / 5);
}

TEST(MemoryPlan, WindowPoolsServeAsManySequencesAsHalfTheBudgetHolds) {
  const std::vector<CacheGroup> groups{group_of(1), group_of(1, 64)};
  const auto plan = plan_memory({.groups = groups,
                                 .model_positions = 1024,
                                 .max_model_len = {},
                                 .kv_cache_bytes = 200 * 49152,
                                 .max_num_seqs = 64,
                                 .max_num_batched_tokens = 64});
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_LE(plan->num_pages[1], 100);
  EXPECT_GE(plan->num_pages[1], 96);
  EXPECT_EQ(plan->num_pages[0], 200 - plan->num_pages[1]);
}

TEST(MemoryPlan, SlotsStayWithin32Bits) {
  CacheGroup tiny;
  tiny.layers.push_back({0, *grouped_format({}, KvElem::bf16, 1, 2, false)});
  const std::vector<CacheGroup> groups{tiny};
  const auto plan = plan_memory({.groups = groups,
                                 .model_positions = 1 << 20,
                                 .max_model_len = {},
                                 .kv_cache_bytes = std::int64_t{1} << 50,
                                 .available_bytes = 0});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->capacity_tokens, (std::int64_t{1} << 31) - 128);
}

// A card of 140 GiB, 90% of which are 126: 15.5 GiB of weights and scratch and 1.5 GiB of steps leave 109.
TEST(MemoryPlan, ADevicesOwnMemoryIsTakenUpToItsShare) {
  const DeviceRoom room{.total_bytes = 140 * kGibibyte,
                        .free_bytes = 124 * kGibibyte,
                        .held_bytes = 31 * kGibibyte / 2,
                        .step_bytes = 3 * kGibibyte / 2,
                        .share = 0.9f};
  const auto left = room_for_cache(room);
  ASSERT_TRUE(left) << left.error().message();
  EXPECT_NEAR(static_cast<double>(left->bytes), 109.0 * static_cast<double>(kGibibyte), 1e4);
  EXPECT_EQ(left->derivation,
            "90% of the device's 140.0 GiB, less 15.5 GiB held and 1.5 GiB that the largest steps take");
  const std::vector<CacheGroup> groups{group_of(30)};
  const auto plan = plan_memory({.groups = groups,
                                 .model_positions = 8192,
                                 .max_model_len = {},
                                 .kv_cache_bytes = {},
                                 .available_bytes = left->bytes,
                                 .fill_reason = left->derivation});
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_GT(plan->bytes, left->bytes - 2 * 1474560);
  EXPECT_LE(plan->bytes, left->bytes);
  EXPECT_NE(plan->derivation.find("(90% of the device's 140.0 GiB, "), std::string::npos);
}

TEST(MemoryPlan, WhatOthersHoldIsNotTaken) {
  DeviceRoom room{.total_bytes = 140 * kGibibyte,
                  .free_bytes = 20 * kGibibyte,
                  .held_bytes = 16 * kGibibyte,
                  .step_bytes = 2 * kGibibyte,
                  .share = 0.9f};
  EXPECT_EQ(room_for_cache(room)->bytes, 18 * kGibibyte - (std::int64_t{256} << 20));
  EXPECT_EQ(room_for_cache(room)->derivation,
            "20.0 GiB free on the device, less 256.0 MiB to spare and 2.0 GiB that the largest steps take");
  room.free_bytes = 2 * kGibibyte;
  EXPECT_EQ(room_for_cache(room).error().message(),
            "nothing is left for the KV cache: 2.0 GiB free on the device, less 256.0 MiB to spare and 2.0 GiB that "
            "the largest steps take; free memory on the device, or lower --max-num-batched-tokens or --max-num-seqs");
  room.share = 0.125f;  // 17.5 GiB
  EXPECT_EQ(room_for_cache(room).error().kind(), ErrorKind::exhausted);
  room.free_bytes = 120 * kGibibyte;
  EXPECT_EQ(
      room_for_cache(room).error().message(),
      "nothing is left for the KV cache: 12.5% of the device's 140.0 GiB, less 16.0 GiB held and 2.0 GiB that the "
      "largest steps take; raise --gpu-memory-utilization, or lower --max-num-batched-tokens or --max-num-seqs");
}

// Records are for so many sequences as take half of the budget; one sequence needs one beside its tokens.
TEST(MemoryPlan, RecordsOfStatesAreCounted) {
  const std::vector<CacheGroup> groups{group_of(30), states()};
  const std::int64_t record = bytes_per_page(states(), 64);
  EXPECT_EQ(record, 48 * (3 * 10240 + 48 * 128 * 128) * 4);
  MemoryRequest request{.groups = groups,
                        .model_positions = 8192,
                        .max_model_len = {},
                        .kv_cache_bytes = 100 * record,
                        .max_num_seqs = 64};
  auto plan = plan_memory(request);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->num_pages[1], 50) << "49 sequences and the sink";
  EXPECT_EQ(plan->num_pages[0], 50 * record / 1474560);
  EXPECT_LE(plan->bytes, 100 * record);
  EXPECT_NE(plan->derivation.find("; states: 49 records x 156,893,184 bytes for 49 sequences"), std::string::npos)
      << plan->derivation;
  request.max_num_seqs = 4;
  EXPECT_EQ(plan_memory(request)->num_pages[1], 5);

  // The record of one sequence and the sink's come before any token.
  request.kv_cache_bytes = 2 * record + 1474560;
  EXPECT_FALSE(plan_memory(request));
  request.kv_cache_bytes = 2 * record + 3 * 1474560;
  plan = plan_memory(request);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->num_pages, (std::vector<std::int32_t>{3, 2}));
  EXPECT_EQ(plan->max_model_len, 128);
}

// Snapshots take what they are given of the tokens' part: four a sequence, an eighth of the cache at most, and none
// where one long sequence needs it.
TEST(MemoryPlan, SnapshotsOfStatesAreCounted) {
  const std::vector<CacheGroup> groups{group_of(30), states()};
  const std::int64_t record = bytes_per_page(states(), 64);
  const std::int64_t length = 128 * 1474560 + 1474560;  // 8,192 tokens and the sink
  MemoryRequest request{.groups = groups,
                        .model_positions = 8192,
                        .max_model_len = {},
                        .kv_cache_bytes = 104 * record,
                        .max_num_seqs = 64,
                        .prefix_caching = true};
  auto plan = plan_memory(request);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->num_pages[1], 52 + 13);
  EXPECT_EQ(plan->num_pages[0], 39 * record / 1474560);
  EXPECT_LE(plan->bytes, 104 * record);
  EXPECT_NE(plan->derivation.find("states: 64 records x 156,893,184 bytes for 51 sequences and 13 snapshots"),
            std::string::npos)
      << plan->derivation;
  request.max_num_seqs = 2;
  EXPECT_EQ(plan_memory(request)->num_pages[1], 3 + 8);

  request.kv_cache_bytes = 10 * record + length;  // more than an eighth is left
  request.max_num_seqs = 8;
  EXPECT_EQ(plan_memory(request)->num_pages[1], 5 + 1);
  request.kv_cache_bytes = 2 * record + length;
  plan = plan_memory(request);
  EXPECT_EQ(plan->num_pages, (std::vector<std::int32_t>{129, 2})) << plan->derivation;
  EXPECT_EQ(plan->max_model_len, 8192);

  // What is taken of a host's memory has room for them.
  request.kv_cache_bytes.reset();
  request.max_num_seqs = 2;
  request.available_bytes = std::int64_t{1} << 40;
  plan = plan_memory(request);
  EXPECT_NE(plan->derivation.find("for 2 sequences and "), std::string::npos) << plan->derivation;
  EXPECT_GE(plan->capacity_tokens, 2 * 8192);
}

}  // namespace
}  // namespace octavo
