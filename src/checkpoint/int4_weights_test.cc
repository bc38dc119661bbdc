// Packed 4-bit integers: which numbers each rank gets, and what is refused by which name.

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/binder.h"
#include "checkpoint/test_files.h"
#include "tensor/float8.h"

namespace octavo {
namespace {

using namespace octavo::testing;

constexpr std::int64_t kRows = 4, kColumns = 128;

int code(std::int64_t row, std::int64_t column) { return static_cast<int>((row * 7 + column * 3) % 16); }
float scale(std::int64_t row, std::int64_t group) { return 0.0625f * static_cast<float>(1 + row + 4 * group); }

std::vector<MadeTensor> packed_integers(float first_scale = scale(0, 0)) {
  std::vector<std::int32_t> words;
  std::vector<std::uint16_t> scales;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kColumns; c += 8) {
      std::uint32_t word = 0;
      for (int i = 0; i < 8; ++i) word |= static_cast<std::uint32_t>(code(r, c + i)) << (4 * i);
      words.push_back(static_cast<std::int32_t>(word));
    }
    for (std::int64_t g = 0; g < kColumns / 32; ++g)
      scales.push_back(bf16_from_f32(r == 0 && g == 0 ? first_scale : scale(r, g)));
  }
  return {{"up.weight_packed", "I32", {kRows, kColumns / 8}, raw_list(words)},
          {"up.weight_scale", "BF16", {kRows, kColumns / 32}, raw_list(scales)},
          {"up.weight_shape", "I64", {2}, raw_list(std::vector<std::int64_t>{kRows, kColumns})}};
}

struct PackedFile {
  TemporaryDirectory directory;
  Checkpoint checkpoint;
  HostDevice device;
  std::unique_ptr<CheckpointBinder> binder;

  explicit PackedFile(const std::vector<MadeTensor>& tensors, RankOf rank = {},
                      WeightScheme scheme = WeightScheme::int4) {
    directory.write("config.json", "{}");
    directory.write("model.safetensors", safetensors_bytes(tensors));
    checkpoint = *Checkpoint::open(directory.path());
    Quantization quantization;
    quantization.scheme = scheme;
    binder = std::make_unique<CheckpointBinder>(checkpoint, quantization, NameMap(), device, rank);
  }
  Result<Weight> weight(Cut cut, std::int64_t in = kColumns) {
    const PartRequest part{"up", kRows, cut};
    Weight target;
    OCTAVO_TRY(binder->weight(target, {&part, 1}, in));
    return target;
  }
};

// Number `i` of a q4_0 row by the format's definition: half a scale, 16 bytes; the low halves are the first 16 numbers.
double number(const std::byte* row, std::int64_t i) {
  const std::byte* block = row + i / 32 * 18;
  std::uint16_t half;
  std::memcpy(&half, block, sizeof half);
  const auto byte = static_cast<int>(block[2 + i % 16]);
  return static_cast<double>(f32_from_f16(half)) * ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}

TEST(PackedIntegers, EachRankGetsItsNumbers) {
  for (const Cut cut : {Cut::none, Cut::rows, Cut::columns})
    for (int size : {1, 2, 4})
      for (int rank = 0; rank < size; ++rank) {
        PackedFile file(packed_integers(), {rank, size});
        const auto weight = file.weight(cut);
        ASSERT_TRUE(weight) << weight.error().message();
        const std::int64_t rows = cut == Cut::rows ? kRows / size : kRows;
        const std::int64_t cols = cut == Cut::columns ? kColumns / size : kColumns;
        const Tensor& values = weight->parts[0].values;
        ASSERT_EQ(values.dtype(), DType::q4_0);
        ASSERT_EQ(values.size(0), rows);
        ASSERT_EQ(values.size(1), cols);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c) {
            const std::int64_t row = cut == Cut::rows ? rank * rows + r : r;
            const std::int64_t column = cut == Cut::columns ? rank * cols + c : c;
            EXPECT_EQ(number(values.raw() + r * dtype_bytes(DType::q4_0, cols), c),
                      static_cast<double>(scale(row, column / 32)) * (code(row, column) - 8));
          }
        EXPECT_TRUE(file.binder->finish());
      }
}

TEST(PackedIntegers, RefusedByName) {
  const auto refusal = [](const std::vector<MadeTensor>& tensors, RankOf rank = {}) {
    return message_of(PackedFile(tensors, rank).weight(Cut::columns));
  };
  EXPECT_NE(refusal(packed_integers(1e-9f)).find("up.weight_scale\" holds a scale of"), std::string::npos);
  EXPECT_NE(refusal(packed_integers(std::nanf(""))).find("the file is damaged"), std::string::npos);
  EXPECT_NE(refusal(packed_integers(), {0, 8}).find("up.weight_packed"), std::string::npos);  // half a group each
  std::vector<MadeTensor> tensors = packed_integers();
  tensors[2].data = raw_list(std::vector<std::int64_t>{kRows, kColumns - 1});
  EXPECT_NE(refusal(tensors).find("up.weight_shape\" says 4 x 127, expected 4 x 128"), std::string::npos);
  tensors.pop_back();
  EXPECT_NE(refusal(tensors).find("\"up.weight_shape\" is missing"), std::string::npos);
  tensors = packed_integers();
  tensors[0].dtype = "F32";
  EXPECT_NE(refusal(tensors).find("not of 4-bit integers"), std::string::npos);
  // Where the config does not tell of them, they are not read.
  EXPECT_NE(message_of(PackedFile(packed_integers(), {}, WeightScheme::none).weight(Cut::none)).find("not supported"),
            std::string::npos);
}

}  // namespace
}  // namespace octavo
