#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <utility>

namespace octavo {
namespace {

// [2, 3, 4] holding 0, 1, 2, ...
struct Cube {
  std::array<std::int32_t, 24> numbers{};
  Tensor tensor;
  Cube() : tensor(numbers.data(), DType::i32, {2, 3, 4}) { std::iota(numbers.begin(), numbers.end(), 0); }
};

std::int32_t at(const Tensor& t, std::initializer_list<std::int64_t> index) {
  std::int64_t offset = 0;
  int dim = 0;
  for (const std::int64_t i : index) offset += i * t.stride(dim++);
  return t.data<std::int32_t>()[offset];
}

TEST(Tensor, ShapeAndStrides) {
  const Cube cube;
  EXPECT_EQ(cube.tensor.rank(), 3);
  EXPECT_EQ(cube.tensor.elements(), 24);
  EXPECT_EQ(cube.tensor.bytes(), 96);
  EXPECT_EQ(cube.tensor.size(-1), 4);
  EXPECT_EQ(cube.tensor.stride(0), 12);
  EXPECT_TRUE(cube.tensor.contiguous());
  EXPECT_EQ(cube.tensor.describe(), "i32 [2, 3, 4]");
  EXPECT_TRUE(Tensor().empty());
  EXPECT_EQ(Tensor().elements(), 0);
}

TEST(Tensor, ViewsReadTheSameNumbers) {
  const Cube cube;
  const Tensor second = cube.tensor.rows(1, 1);
  EXPECT_EQ(at(second, {0, 2, 3}), 23);
  const Tensor middle = cube.tensor.columns(1, 2);
  EXPECT_EQ(at(middle, {1, 0, 0}), 13);
  EXPECT_EQ(middle.size(-1), 2);
  EXPECT_FALSE(middle.contiguous());
  const Tensor flat = cube.tensor.reshaped({6, 4});
  EXPECT_EQ(at(flat, {5, 0}), 20);
  const Tensor pairs = flat.columns(0, 4).split_last(2, 2);
  EXPECT_EQ(pairs.rank(), 3);
  EXPECT_EQ(at(pairs, {3, 1, 0}), 14);
  const Tensor split_of_strided = cube.tensor.reshaped({2, 12}).columns(4, 8).split_last(2, 4);
  EXPECT_EQ(at(split_of_strided, {1, 1, 2}), 22);
  const Tensor odd = flat.every(1, 2);
  EXPECT_EQ(odd.size(-1), 2);
  EXPECT_EQ(at(odd, {2, 1}), 11);
}

TEST(Tensor, BlockTypesCountWholeBlocks) {
  std::array<std::byte, 2 * 2 * 18> bytes{};
  const Tensor weight(bytes.data(), DType::q4_0, {2, 64});
  EXPECT_EQ(weight.bytes(), 72);
  EXPECT_EQ(weight.rows(1, 1).raw() - weight.raw(), 36);
  EXPECT_DEATH(Tensor(bytes.data(), DType::q4_0, {2, 33}), "whole number of blocks");
  EXPECT_DEATH(weight.columns(0, 32), "out of range");
}

TEST(Tensor, MistakesStop) {
  const Cube cube;
  EXPECT_DEATH(cube.tensor.rows(1, 2), "rows out of range");
  EXPECT_DEATH(cube.tensor.reshaped({5, 5}), "as many numbers");
  EXPECT_DEATH(cube.tensor.columns(1, 2).reshaped({12}), "contiguous");
  EXPECT_DEATH(cube.tensor.data<double>(), "element size");
}

TEST(Buffer, ReleasesOnceAndMoves) {
  int released = 0;
  std::byte memory[4];
  {
    Buffer first(memory, 4, [&](std::byte* data) { released += data == memory ? 1 : 100; });
    Buffer second(std::move(first));
    EXPECT_EQ(second.data(), memory);
    EXPECT_EQ(first.data(), nullptr);
    Buffer third;
    third = std::move(second);
    EXPECT_EQ(released, 0);
    EXPECT_EQ(third.size(), 4u);
    third = Buffer();
    EXPECT_EQ(released, 1);
  }
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace octavo
