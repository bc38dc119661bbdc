#include "cuda/linear.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cuda/check.h"
#include "cuda/few_rows.h"
#include "cuda/quantize.h"
#include "cuda/unpack.h"

namespace octavo::cuda {

namespace {

constexpr std::int64_t kScratchBytes = std::int64_t{128} << 20;
constexpr std::int64_t kScaleFloats = std::int64_t{4} << 20;  // of inputs, and as many of weights

bool plain_bf16(const WeightPart& part) {
  return part.values.dtype() == DType::bf16 && part.grain == ScaleGrain::none && part.values.contiguous();
}

bool is_aligned(const Tensor& x, std::uintptr_t bytes) {
  const auto row = static_cast<std::uintptr_t>(dtype_bytes(x.dtype(), x.stride(0)));
  return (reinterpret_cast<std::uintptr_t>(x.raw()) | row) % bytes == 0;
}

// Whether `part` continues the product that ends with `before`.
bool continues(const WeightPart& before, const WeightPart& part) {
  const bool neighbours = before.values.contiguous() && part.values.contiguous() &&
                          before.values.raw() + before.values.bytes() == part.values.raw();
  if (!neighbours || before.values.dtype() != part.values.dtype() || before.grain != part.grain) return false;
  if (plain_bf16(part)) return true;
  return part.values.dtype() == DType::e4m3 && part.grain != ScaleGrain::none &&
         before.input_scale.raw() == part.input_scale.raw() && before.block_rows == part.block_rows &&
         (part.grain != ScaleGrain::block || before.values.size(0) % part.block_rows == 0);
}

// Whether the library is faster than kernels for few rows, which is so for several rows of bfloat16 that it takes as
// they are.
bool is_for_library(std::int64_t rows, std::span<const WeightPart> parts) {
  return rows > 1 && std::all_of(parts.begin(), parts.end(), [](const WeightPart& part) {
           return plain_bf16(part) && is_aligned(part.values, 16);
         });
}

ScaleSource scale_source(const WeightPart& part) {
  const bool blocks = part.grain == ScaleGrain::block;
  return {.from = part.scale.data<float>(),
          .rows = blocks ? part.scale.size(0) : part.values.size(0),
          .stride = blocks ? part.scale.stride(0) : 1,
          .single = part.grain == ScaleGrain::tensor};
}

}  // namespace

Result<std::unique_ptr<Linear>> Linear::create(Device& device, bool deterministic) {
  OCTAVO_TRY(auto product, MatrixProduct::create(device, deterministic));
  auto linear = std::unique_ptr<Linear>(new Linear(std::move(product), deterministic));
  const auto allocate = [&](std::int64_t bytes) {
    return device.allocate(static_cast<std::size_t>(bytes), "matrix products");
  };
  OCTAVO_TRY(linear->numbers_, allocate(kScratchBytes));
  OCTAVO_TRY(linear->sums_, allocate(kScratchBytes));
  OCTAVO_TRY(linear->scales_, allocate(2 * kScaleFloats * 4));
  return linear;
}

std::vector<Linear::Stack> Linear::stacks(const std::vector<WeightPart>& parts) {
  std::vector<Stack> result;
  for (const WeightPart& part : parts) {
    if (!result.empty()) {
      Stack& last = result.back();
      if (last.parts.size() < kMaxStacked && continues(last.parts.back(), part)) {
        last.parts = std::span(last.parts.data(), last.parts.size() + 1);
        last.values = Tensor(last.values.raw(), part.values.dtype(),
                             {last.values.size(0) + part.values.size(0), part.values.size(1)});
        continue;
      }
    }
    result.push_back({std::span(&part, 1), part.values});
  }
  return result;
}

void Linear::run(cudaStream_t stream, const LinearArgs& args) {
  const std::int64_t tokens = args.x.size(0);
  octavo::check(args.x.size(1) == args.weight.in && args.out.size(0) == tokens && args.out.size(1) == args.weight.out &&
                    (args.bias.empty() || args.bias.size(0) == args.weight.out),
                "shapes of linear");
  if (tokens == 0) return;
  const bool few = !deterministic_ && takes_few_rows(args.x);
  if (few && !is_for_library(tokens, args.weight.parts)) return run_few(stream, args);
  std::int64_t column = 0;
  for (const Stack& stack : stacks(args.weight.parts)) {
    const std::int64_t rows = stack.values.size(0);
    const Work work{stream, args.x, stack, args.bias.empty() ? Tensor() : args.bias.rows(column, rows),
                    args.out.columns(column, rows)};
    if (!run_fp8(work) && !run_bf16(work)) {
      const RowsProduct product{work.x, stack.parts, work.bias, work.out};
      few ? few_rows(stream, product) : any_rows(stream, product);
    }
    column += rows;
  }
}

// One launch for as many neighbours in the list as are of a dtype.
void Linear::run_few(cudaStream_t stream, const LinearArgs& args) {
  const std::span<const WeightPart> parts = args.weight.parts;
  std::int64_t column = 0;
  for (std::size_t begin = 0; begin < parts.size();) {
    const bool few = takes_few_rows(parts[begin]);
    std::size_t end = begin;
    std::int64_t rows = 0;
    do {
      rows += parts[end++].values.size(0);
    } while (few && end < parts.size() && end - begin < kMaxStacked && takes_few_rows(parts[end]) &&
             parts[end].values.dtype() == parts[begin].values.dtype());
    const RowsProduct product{args.x, parts.subspan(begin, end - begin),
                              args.bias.empty() ? Tensor() : args.bias.rows(column, rows),
                              args.out.columns(column, rows)};
    few ? few_rows(stream, product) : any_rows(stream, product);
    column += rows;
    begin = end;
  }
}

// False if no such product serves the shape: the caller then computes all of it in another way.
bool Linear::run_fp8(const Work& work) {
  const WeightPart& part = work.stack.parts.front();
  const std::int64_t in = work.x.size(1);
  const std::int64_t rows = work.stack.values.size(0);
  if (part.values.dtype() != DType::e4m3 || part.grain == ScaleGrain::none || !part.values.contiguous() ||
      work.x.dtype() != DType::bf16 || in % 16 != 0 || rows % 16 != 0 || !is_aligned(work.x, 16) ||
      !is_aligned(part.values, 16))
    return false;
  if (part.grain == ScaleGrain::block)
    return part.block_rows == kBlockSide && part.block_cols == kBlockSide && in % kBlockSide == 0 &&
           run_fp8(work, ProductKind::fp8_blocks);
  return run_fp8(work, ProductKind::fp8_rows) || run_fp8(work, ProductKind::fp8);
}

bool Linear::run_fp8(const Work& work, ProductKind kind) {
  const bool blocks = kind == ProductKind::fp8_blocks;
  const std::int64_t in = work.x.size(1);
  const std::int64_t rows = work.stack.values.size(0);
  const std::int64_t x_scales = blocks ? in / kBlockSide : 1;  // of a token
  QuantizeArgs quantized{.by_block = blocks,
                         .codes = numbers_.data(),
                         .x_scale = reinterpret_cast<float*>(scales_.data()),
                         .weight_scale = reinterpret_cast<float*>(scales_.data()) + kScaleFloats,
                         .scale_cols = x_scales,
                         .scale_stride = blocks ? (x_scales + 3) / 4 * 4 : 1};
  const Tensor& given = work.stack.parts.front().input_scale;
  if (!given.empty()) quantized.static_scale = given.data<float>();
  std::int64_t scale_rows = 0;
  for (std::size_t i = 0; i < work.stack.parts.size(); ++i) {
    quantized.weights[i] = scale_source(work.stack.parts[i]);
    scale_rows += quantized.weights[i].rows;
  }
  // Sums of at least 128 rows of the weight have to find room, too.
  const std::int64_t most = std::min({kScratchBytes / in, kScaleFloats / x_scales, kScratchBytes / (4 * kBlockSide)});
  if (most < 4 || scale_rows * quantized.scale_stride > kScaleFloats) return false;

  const std::int64_t tokens = work.x.size(0);
  const std::int64_t token_step = most / 4 * 4;
  for (std::int64_t token = 0; token < tokens; token += token_step) {
    const std::int64_t count = std::min(token_step, tokens - token);
    quantized.x = work.x.rows(token, count);
    quantized.padded_tokens = blocks ? (count + 3) / 4 * 4 : count;  // the library wants whole vectors of scales
    const Tensor to = work.out.rows(token, count);
    const bool direct =
        kind != ProductKind::fp8 && work.bias.empty() && quantized.padded_tokens == count && is_aligned(to, 16);
    std::int64_t step = rows;
    if (!direct) step = std::min(step, kScratchBytes / (4 * quantized.padded_tokens) / kBlockSide * kBlockSide);
    for (std::int64_t first = 0; first < rows; first += step) {
      const std::int64_t width = std::min(step, rows - first);
      const float* weight_scale =
          quantized.weight_scale + (blocks ? first / kBlockSide * quantized.scale_stride : first);
      const Tensor sums =
          direct ? to.columns(first, width) : Tensor(sums_.data(), DType::f32, {quantized.padded_tokens, width});
      const ProductArgs product{.x = Tensor(quantized.codes, DType::e4m3, {quantized.padded_tokens, in}),
                                .weight = work.stack.values.raw() + first * in,
                                .out = sums,
                                .kind = kind,
                                .x_scale = quantized.x_scale,
                                .weight_scale = weight_scale};
      if (!product_->serves(product)) return false;
      if (first == 0) quantize(work.stream, quantized);
      product_->run(work.stream, product);
      if (direct) continue;
      const bool scaled = kind != ProductKind::fp8;
      finish_sums(work.stream, {.sums = sums.data<float>(),
                                .stride = width,
                                .x_scale = scaled ? nullptr : quantized.x_scale,
                                .weight_scale = scaled ? nullptr : weight_scale,
                                .bias = work.bias.empty() ? nullptr : work.bias.data<float>() + first,
                                .to = to.columns(first, width)});
    }
  }
  return true;
}

bool Linear::run_bf16(const Work& work) {
  const Tensor& x = work.x;
  const std::int64_t in = x.size(1);
  const std::int64_t rows = work.stack.values.size(0);
  const std::int64_t tokens = x.size(0);
  if (x.dtype() != DType::bf16 || in % 8 != 0 || !is_aligned(x, 16)) return false;
  const WeightPart& part = work.stack.parts.front();
  const bool packed = !plain_bf16(part) || !is_aligned(part.values, 16);
  std::int64_t step = rows;
  if (packed) step = std::min(step, kScratchBytes / (2 * in));
  if (!work.bias.empty()) step = std::min(step, kScratchBytes / (4 * tokens));
  if (step < rows) step = step / 8 * 8;
  if (step <= 0) return false;
  std::int64_t done = 0;  // rows of the stack before this part
  for (const WeightPart& source : packed ? work.stack.parts : work.stack.parts.first(1)) {
    const std::int64_t part_rows = packed ? source.values.size(0) : rows;
    for (std::int64_t first = 0; first < part_rows; first += step) {
      const std::int64_t count = std::min(step, part_rows - first);
      const std::byte* weight = work.stack.values.raw() + first * in * 2;
      if (packed) {
        unpack_rows(work.stream, source, first, count, numbers_.data());
        weight = numbers_.data();
      }
      const Tensor to = work.out.columns(done + first, count);
      const Tensor sums = work.bias.empty() ? to : Tensor(sums_.data(), DType::f32, {tokens, count});
      const ProductArgs product{x, weight, sums};
      if (!product_->serves(product)) return false;
      product_->run(work.stream, product);
      if (!work.bias.empty())
        finish_sums(
            work.stream,
            {.sums = sums.data<float>(), .stride = count, .bias = work.bias.data<float>() + done + first, .to = to});
    }
    done += part_rows;
  }
  return true;
}

}  // namespace octavo::cuda
