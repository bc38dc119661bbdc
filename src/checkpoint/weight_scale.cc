#include "checkpoint/weight_scale.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace octavo {
namespace {

std::int64_t blocks(std::int64_t n, std::int64_t block) { return (n + block - 1) / block; }

Error bad_weight_scale(const StoredTensor& tensor, const std::string& what) {
  return Error(tensor.file + ": scale " + in_quotes(tensor.name) + " " + what);
}

Result<std::vector<float>> read_positive(const StoredTensor& tensor) {
  OCTAVO_TRY(std::vector<float> numbers, read_floats(tensor));
  for (const float number : numbers)
    if (!std::isfinite(number) || number <= 0)
      return bad_weight_scale(tensor, "holds " + std::to_string(number) + ", but scales must be finite and positive");
  return numbers;
}

// The largest blocks, counted from where a share begins, of which none lies in two blocks of the whole: a share that
// begins inside a block has its scale for smaller ones.
int finer_block(Range share, int block) { return static_cast<int>(std::gcd<std::int64_t>(share.begin, block)); }

bool is_single(const std::vector<std::int64_t>& shape) { return shape.empty() || (shape.size() == 1 && shape[0] == 1); }

}  // namespace

Result<WeightScale> read_weight_scale(const StoredTensor& tensor, std::int64_t out, std::int64_t in,
                                      const Quantization& quantization) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  WeightScale scale;
  const bool knows_blocks = quantization.block_rows > 0 && quantization.block_cols > 0;
  const std::int64_t block_rows = knows_blocks ? blocks(out, quantization.block_rows) : 0;
  const std::int64_t block_cols = knows_blocks ? blocks(in, quantization.block_cols) : 0;
  const bool by_block = knows_blocks && shape.size() == 2 && shape[0] == block_rows && shape[1] == block_cols;
  const bool by_channel = (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1)) && shape[0] == out;
  if (by_block && (!by_channel || quantization.scheme == WeightScheme::fp8_block)) {
    scale.grain = ScaleGrain::block;
    scale.rows = block_rows;
    scale.cols = block_cols;
    scale.block_rows = quantization.block_rows;
    scale.block_cols = quantization.block_cols;
  } else if (is_single(shape)) {
    scale.grain = ScaleGrain::tensor;
  } else if (by_channel) {
    scale.grain = ScaleGrain::channel;
    scale.rows = out;
  } else {
    std::string expected = "[1], [" + std::to_string(out) + "] or [" + std::to_string(out) + ", 1]";
    if (knows_blocks) expected += " or [" + std::to_string(block_rows) + ", " + std::to_string(block_cols) + "]";
    return bad_weight_scale(tensor, "has shape " + shape_text(shape) + ", expected " + expected + " for a weight [" +
                                        std::to_string(out) + ", " + std::to_string(in) + "]" +
                                        (knows_blocks ? "" : "; config.json names no block size"));
  }
  OCTAVO_TRY(scale.numbers, read_positive(tensor));
  return scale;
}

Result<WeightScale> cut_scale(const WeightScale& whole, std::int64_t out, std::int64_t in, Range rows, Range cols,
                              std::int64_t paired) {
  if (whole.grain == ScaleGrain::tensor) return whole;
  WeightScale part = whole;
  part.numbers.clear();
  if (whole.grain == ScaleGrain::channel) {
    part.rows = rows.count;
    for (std::int64_t r = 0; r < rows.count; ++r)
      part.numbers.push_back(whole.numbers[static_cast<std::size_t>(file_row(rows.begin + r, paired))]);
    return part;
  }
  if (paired != 0) return Error("rows in adjacent pairs cannot have scales per block", ErrorKind::unsupported);
  check(rows.end() <= out && cols.end() <= in, "a share lies in its matrix");
  part.block_rows = finer_block(rows, whole.block_rows);
  part.block_cols = finer_block(cols, whole.block_cols);
  part.rows = blocks(rows.count, part.block_rows);
  part.cols = blocks(cols.count, part.block_cols);
  for (std::int64_t r = 0; r < part.rows; ++r)
    for (std::int64_t c = 0; c < part.cols; ++c) {
      const std::int64_t row = (rows.begin + r * part.block_rows) / whole.block_rows;
      const std::int64_t col = (cols.begin + c * part.block_cols) / whole.block_cols;
      part.numbers.push_back(whole.numbers[static_cast<std::size_t>(row * whole.cols + col)]);
    }
  return part;
}

Result<float> read_single_scale(const StoredTensor& tensor) {
  if (!is_single(tensor.shape))
    return bad_weight_scale(tensor, "has shape " + shape_text(tensor.shape) + ", expected [1]");
  OCTAVO_TRY(const std::vector<float> numbers, read_positive(tensor));
  return numbers[0];
}

}  // namespace octavo
