// Collectives of ranks that are threads, against sums made here.
#include "cpu/rank_comm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/on_threads.h"
#include "cpu/backend.h"
#include "tensor/float8.h"

namespace octavo::cpu {
namespace {

float number(int rank, std::int64_t i) {
  return std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(rank) * 1.3f) * (rank == 1 ? 1000.0f : 1.0f);
}

// In float32, one rank after the other: the bits are told, not only the value.
TEST(RankComm, SumsAreThoseOfTheRanksInTheirOrder) {
  for (const int size : {2, 3, 4})
    for (const std::int64_t count : {1, 63, 64, 65, 5000}) {
      const auto group = std::make_shared<RankGroup>(size);
      std::vector<std::vector<float>> floats(static_cast<std::size_t>(size));
      std::vector<std::vector<std::uint16_t>> halves(static_cast<std::size_t>(size));
      for (int rank = 0; rank < size; ++rank)
        for (std::int64_t i = 0; i < count; ++i) {
          floats[static_cast<std::size_t>(rank)].push_back(number(rank, i));
          halves[static_cast<std::size_t>(rank)].push_back(bf16_from_f32(number(rank, i)));
        }
      std::vector<float> wide = floats[0];
      std::vector<std::uint16_t> narrow;
      for (std::int64_t i = 0; i < count; ++i) {
        float sum = f32_from_bf16(halves[0][static_cast<std::size_t>(i)]);
        for (std::size_t rank = 1; rank < static_cast<std::size_t>(size); ++rank) {
          wide[static_cast<std::size_t>(i)] += floats[rank][static_cast<std::size_t>(i)];
          sum += f32_from_bf16(halves[rank][static_cast<std::size_t>(i)]);
        }
        narrow.push_back(bf16_from_f32(sum));
      }
      on_threads(size, [&](int rank) {
        RankComm comm(group, rank);
        comm.all_reduce(Tensor(floats[static_cast<std::size_t>(rank)].data(), DType::f32, {count}));
        comm.all_reduce(Tensor(halves[static_cast<std::size_t>(rank)].data(), DType::bf16, {count, 1}));
      });
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
        EXPECT_EQ(floats[rank], wide) << size << " ranks, " << count;
        EXPECT_EQ(halves[rank], narrow) << size << " ranks, " << count;
      }
    }
}

TEST(RankComm, ColumnsStandSideBySideInOrder) {
  constexpr int kSize = 3;
  const auto group = std::make_shared<RankGroup>(kSize);
  std::vector<std::vector<float>> gathered(kSize, std::vector<float>(2 * kSize * 2));
  on_threads(kSize, [&](int rank) {
    RankComm comm(group, rank);
    const auto r = static_cast<float>(rank);
    std::vector<float> own = {r, r + 10, -1, r + 20, r + 30, -1};  // rows of 2, strided by 3
    comm.all_gather_columns(Tensor(own.data(), DType::f32, {2, 3}).columns(0, 2),
                            Tensor(gathered[static_cast<std::size_t>(rank)].data(), DType::f32, {2, 2 * kSize}));
  });
  for (const std::vector<float>& each : gathered)
    EXPECT_EQ(each, (std::vector<float>{0, 10, 1, 11, 2, 12, 20, 30, 21, 31, 22, 32}));
}

TEST(RankComm, NobodyWaitsForARankThatGaveUp) {
  const auto group = std::make_shared<RankGroup>(2);
  std::vector<float> numbers = {1, 2};
  on_threads(2, [&](int rank) {
    RankComm comm(group, rank);
    if (rank == 1) return comm.give_up();
    comm.all_reduce(Tensor(numbers.data(), DType::f32, {2}));
    comm.all_gather_columns(Tensor(numbers.data(), DType::f32, {1, 1}), Tensor(numbers.data(), DType::f32, {1, 2}));
  });
  on_threads(2, [&](int rank) {
    RankComm comm(group, rank);
    EXPECT_TRUE(comm.restore());
  });
  std::vector<float> other = {10, 20};
  on_threads(2, [&](int rank) {
    RankComm(group, rank).all_reduce(Tensor(rank == 0 ? numbers.data() : other.data(), DType::f32, {2}));
  });
  EXPECT_EQ(numbers, (std::vector<float>{11, 22}));
  EXPECT_EQ(other, numbers);
}

// Threads are shared out, memory is counted once for all.
TEST(RankComm, BackendsOfRanksShareTheMachine) {
  const auto backends = make_backends({.num_threads = 5}, 2);
  ASSERT_TRUE(backends) << backends.error().message();
  ASSERT_EQ(backends->size(), 2u);
  for (int rank = 0; rank < 2; ++rank) {
    Backend& backend = *(*backends)[static_cast<std::size_t>(rank)];
    EXPECT_EQ(backend.comm().rank(), rank);
    EXPECT_EQ(backend.comm().size(), 2);
    EXPECT_EQ(backend.device().describe(), "2 threads, plain");
  }
  const auto alone = make_backends({.num_threads = 5}, 1);
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->front()->comm().size(), 1);
  EXPECT_EQ(alone->front()->device().describe(), "5 threads, plain");
}

}  // namespace
}  // namespace octavo::cpu
