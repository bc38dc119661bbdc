#include "cuda/linear.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cuda/few_rows.h"
#include "cuda/unpack.h"

namespace octavo::cuda {

namespace {

constexpr std::size_t kScratchBytes = std::size_t{128} << 20;

bool plain_bf16(const WeightPart& part) {
  return part.values.dtype() == DType::bf16 && part.grain == ScaleGrain::none && part.values.contiguous();
}

// Neighbours in memory become one part: q, k and v of an attention are one product.
std::vector<WeightPart> joined(const std::vector<WeightPart>& parts) {
  std::vector<WeightPart> result;
  for (const WeightPart& part : parts) {
    if (!result.empty() && plain_bf16(part) && plain_bf16(result.back())) {
      const Tensor& before = result.back().values;
      if (before.raw() + before.bytes() == part.values.raw()) {
        result.back().values =
            Tensor(before.raw(), DType::bf16, {before.size(0) + part.values.size(0), before.size(1)});
        continue;
      }
    }
    result.push_back(part);
  }
  return result;
}

bool is_aligned(const Tensor& x, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(x.raw()) % bytes == 0;
}

}  // namespace

Result<std::unique_ptr<Linear>> Linear::create(Device& device) {
  OCTAVO_TRY(auto product, MatrixProduct::create(device));
  auto linear = std::unique_ptr<Linear>(new Linear(std::move(product)));
  OCTAVO_TRY(linear->unpacked_, device.allocate(kScratchBytes, "matrix products"));
  OCTAVO_TRY(linear->sums_, device.allocate(kScratchBytes, "matrix products"));
  return linear;
}

void Linear::run(cudaStream_t stream, const LinearArgs& args) {
  const std::int64_t tokens = args.x.size(0);
  octavo::check(args.x.size(1) == args.weight.in && args.out.size(0) == tokens && args.out.size(1) == args.weight.out &&
                    (args.bias.empty() || args.bias.size(0) == args.weight.out),
                "shapes of linear");
  if (tokens == 0) return;
  std::int64_t column = 0;
  for (const WeightPart& part : joined(args.weight.parts)) {
    const std::int64_t rows = part.values.size(0);
    const Tensor bias = args.bias.empty() ? Tensor() : args.bias.rows(column, rows);
    run_part(stream, args.x, part, bias, args.out.columns(column, rows));
    column += rows;
  }
}

void Linear::run_part(cudaStream_t stream, const Tensor& x, const WeightPart& part, const Tensor& bias,
                      const Tensor& out) {
  const RowsProduct rows{x, part, bias, out};
  if (takes_few_rows(rows)) return few_rows(stream, rows);
  if (!run_product(stream, x, part, bias, out)) any_rows(stream, rows);
}

// False if this way does not serve the shape: the caller then computes all of it in another.
bool Linear::run_product(cudaStream_t stream, const Tensor& x, const WeightPart& part, const Tensor& bias,
                         const Tensor& out) {
  const std::int64_t in = x.size(1);
  const std::int64_t rows = part.values.size(0);
  const std::int64_t tokens = x.size(0);
  if (x.dtype() != DType::bf16 || in % 8 != 0 || x.stride(0) % 8 != 0 || !is_aligned(x, 16)) return false;
  const bool packed = !plain_bf16(part) || !is_aligned(part.values, 16);
  std::int64_t step = rows;
  const auto scratch = static_cast<std::int64_t>(kScratchBytes);
  if (packed) step = std::min(step, scratch / (2 * in));
  if (!bias.empty()) step = std::min(step, scratch / (4 * tokens));
  if (step < rows) step = step / 8 * 8;
  if (step <= 0) return false;
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    const std::byte* weight = part.values.raw() + first * in * 2;
    if (packed) {
      unpack_rows(stream, part, first, count, unpacked_.data());
      weight = unpacked_.data();
    }
    const Tensor to = out.columns(first, count);
    const Tensor sums = bias.empty() ? to : Tensor(sums_.data(), DType::f32, {tokens, count});
    if (!product_->run(stream, {x, weight, sums})) return false;
    if (!bias.empty()) add_bias(stream, sums.data<float>(), bias.rows(first, count), to);
  }
  return true;
}

}  // namespace octavo::cuda
