#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/float8.h"
#include "tool/kernel_trial.h"

namespace octavo {

namespace {

constexpr std::int64_t kIn = 4096, kOut = 14336;
constexpr std::int64_t kManyTokens = 8192;
constexpr int kSampledRows = 48;
constexpr float kWeightScale = 0.25f;  // of weights that have one scale
// Scales of packed blocks, as f16, and what those of 256 numbers have for 32 or 16 of them.
constexpr std::uint16_t kSixteenth = 0x2C00, kHalf = 0x3800, kMinusHalf = 0xB800;
constexpr int kFactor = 5;

std::string name_of_count(std::int64_t count) {
  return count >= 1024 ? std::to_string(count / 1024) + "k" : std::to_string(count);
}

// Random bits of numbers between 1/8 and 2 in magnitude, whatever the kind.
std::vector<std::byte> weight_bytes(DType dtype, TrialNumbers& numbers) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(dtype_bytes(dtype, kIn * kOut)));
  const auto fill = [&](std::uint64_t mask, std::uint64_t bits) {
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      const std::uint64_t eight = (numbers.bits() & mask) | bits;
      std::memcpy(bytes.data() + at, &eight, 8);
    }
  };
  const auto scales = [&](std::size_t place, std::initializer_list<std::uint16_t> words) {  // of each block
    const auto block = static_cast<std::size_t>(dtype_info(dtype).block_bytes);
    for (std::size_t at = place; at < bytes.size(); at += block)
      std::memcpy(bytes.data() + at, std::data(words), 2 * words.size());
  };
  switch (dtype) {
    case DType::bf16:
      fill(0x81FF81FF81FF81FF, 0x3E003E003E003E00);
      break;
    case DType::f16:
      fill(0x83FF83FF83FF83FF, 0x3800380038003800);
      break;
    case DType::f32:
      fill(0x81FFFFFF81FFFFFF, 0x3E0000003E000000);
      break;
    case DType::e4m3:
      fill(0x9F9F9F9F9F9F9F9F, 0x2020202020202020);
      break;
    case DType::e5m2:
      fill(0x8787878787878787, 0x3030303030303030);
      break;
    default:
      fill(~std::uint64_t{0}, 0);
      if (dtype == DType::q4_1 || dtype == DType::q5_1) {
        scales(0, {kSixteenth, kMinusHalf});
      } else if (dtype == DType::q4_k || dtype == DType::q5_k) {
        scales(0, {kSixteenth, kHalf, 0x0505, 0x0505, 0x0505, 0x0505, 0x5555, 0x5555});
      } else if (dtype == DType::q6_k) {
        scales(192, {0x0505, 0x0505, 0x0505, 0x0505, 0x0505, 0x0505, 0x0505, 0x0505, kSixteenth});
      } else {
        scales(0, {kSixteenth});
      }
  }
  return bytes;
}

// The number at `i` of a row whose bytes begin at `row`.
double number_at(DType dtype, const std::byte* row, std::int64_t i) {
  const auto read = [&](auto bits) {
    std::memcpy(&bits, row + i * static_cast<std::int64_t>(sizeof bits), sizeof bits);
    return bits;
  };
  const DTypeInfo info = dtype_info(dtype);
  const std::byte* const block = row + i / info.block_elems * info.block_bytes;
  const auto n = static_cast<int>(i % info.block_elems);
  const auto bits = [&](int at, int shift, int mask) { return static_cast<int>(block[at]) >> shift & mask; };
  const auto small = [&](int at) { return bits(at + n % 16, n / 16 * 4, 15); };
  const auto fifth = [&](int at) { return bits(at + n / 8, n % 8, 1) << 4; };
  const auto large = [&](int at) { return bits(at + n / 64 * 32 + n % 32, n / 32 % 2 * 4, 15); };
  switch (dtype) {
    case DType::bf16:
      return f32_from_bf16(read(std::uint16_t{}));
    case DType::f16:
      return f32_from_f16(read(std::uint16_t{}));
    case DType::f32:
      return read(float{});
    case DType::e4m3:
      return kWeightScale * double{f32_from_e4m3(read(std::uint8_t{}))};
    case DType::e5m2:
      return kWeightScale * double{f32_from_e5m2(read(std::uint8_t{}))};
    case DType::q4_0:
      return (small(2) - 8) / 16.0;
    case DType::q4_1:
      return small(4) / 16.0 - 0.5;
    case DType::q5_0:
      return ((small(6) | fifth(2)) - 16) / 16.0;
    case DType::q5_1:
      return (small(8) | fifth(4)) / 16.0 - 0.5;
    case DType::q4_k:
      return kFactor * (large(16) / 16.0 - 0.5);
    case DType::q5_k:
      return kFactor * ((large(48) | bits(16 + n % 32, n / 32, 1) << 4) / 16.0 - 0.5);
    case DType::q6_k: {
      const int low = bits(n / 128 * 64 + n % 64, n % 128 / 64 * 4, 15);
      return kFactor * ((low | bits(128 + n / 128 * 32 + n % 32, n % 128 / 32 * 2, 3) << 4) - 32) / 16.0;
    }
    default:
      return static_cast<std::int8_t>(block[2 + n]) / 16.0;
  }
}

double error_of(DType dtype, const std::vector<std::byte>& weight, const std::vector<std::uint16_t>& x,
                const std::vector<std::uint16_t>& got, std::int64_t tokens) {
  TrialError error;
  const std::int64_t row_bytes = dtype_bytes(dtype, kIn);
  for (std::int64_t n = 0; n < kSampledRows; ++n) {
    const std::int64_t out = n * (kOut - 1) / (kSampledRows - 1),
                       token = n % 2 == 0 ? n % tokens : tokens - 1 - n % tokens;
    double sum = 0.0;
    for (std::int64_t i = 0; i < kIn; ++i)
      sum += number_at(dtype, weight.data() + out * row_bytes, i) *
             f32_from_bf16(x[static_cast<std::size_t>(token * kIn + i)]);
    error.add(f32_from_bf16(got[static_cast<std::size_t>(token * kOut + out)]), sum);
  }
  return error.relative();
}

}  // namespace

Result<std::vector<KernelTrial>> linear_trials(Backend& backend, const KernelRow& row, std::uint64_t seed) {
  const std::int64_t tokens = row.max_tokens > 0 ? row.max_tokens : kManyTokens;
  const DType dtype = *row.weight;
  TrialNumbers numbers(seed);
  TrialMemory memory(backend.device());
  const std::vector<std::uint16_t> x_numbers = numbers.normals(tokens * kIn);
  const std::vector<std::byte> bytes = weight_bytes(dtype, numbers);
  Weight weight{.parts = {WeightPart{}}, .out = kOut, .in = kIn};
  WeightPart& part = weight.parts[0];
  OCTAVO_TRY(part.values, memory.put(std::span<const std::byte>(bytes), dtype, {kOut, kIn}));
  if (dtype == DType::e4m3 || dtype == DType::e5m2) {
    part.grain = ScaleGrain::tensor;
    OCTAVO_TRY(part.scale, memory.put(std::span<const float>(&kWeightScale, 1), DType::f32, {1}));
  }
  OCTAVO_TRY(const Tensor x, memory.put(std::span<const std::uint16_t>(x_numbers), DType::bf16, {tokens, kIn}));
  OCTAVO_TRY(const Tensor out, memory.blank(DType::bf16, {tokens, kOut}));
  const LinearArgs args{.x = x, .weight = weight, .bias = {}, .out = out};
  KernelTrial trial{.row = row.name,
                    .shape = name_of_count(tokens) + " x " + std::to_string(kOut) + " x " + std::to_string(kIn)};
  OCTAVO_TRY(trial.ms, backend.run_row(row.name, {.linear = &args}));
  trial.bytes = static_cast<double>(std::ssize(bytes) + x.bytes() + out.bytes());
  trial.operations = 2.0 * static_cast<double>(tokens * kIn * kOut);
  const std::vector<std::uint16_t> got = downloaded_bf16(backend.device(), out);
  trial.error = all_finite(got) ? error_of(dtype, bytes, x_numbers, got, tokens) : std::nan("");
  return std::vector{std::move(trial)};
}

}  // namespace octavo
