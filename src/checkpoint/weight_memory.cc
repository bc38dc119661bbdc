#include "checkpoint/weight_memory.h"

#include <algorithm>
#include <utility>

namespace octavo {
namespace {

constexpr const char* kPurpose = "the weights";
constexpr std::int64_t kAlignment = 64;          // as an allocation of any device
constexpr std::int64_t kStagingBytes = 1 << 20;  // stays in a core's cache between writing and upload

}  // namespace

Result<std::byte*> WeightMemory::allocate(std::int64_t bytes) {
  OCTAVO_TRY(Buffer buffer, device_.allocate(static_cast<std::size_t>(bytes), kPurpose));
  buffers_.push_back(std::move(buffer));
  return buffers_.back().data();
}

Result<const std::byte*> WeightMemory::place(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner,
                                             DType dtype) {
  const DTypeInfo info = dtype_info(dtype);
  const auto alignment = static_cast<std::uintptr_t>(info.block_elems > 1 ? 1 : info.block_bytes);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) {
    OCTAVO_TRY(Buffer buffer, device_.adopt(bytes, owner, kPurpose));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().data();
  }
  OCTAVO_TRY(std::byte* const to, allocate(static_cast<std::int64_t>(bytes.size())));
  device_.upload(to, bytes);
  return to;
}

Result<const std::byte*> WeightMemory::make(std::int64_t rows, std::int64_t row_bytes, const WriteRows& write) {
  OCTAVO_TRY(std::byte* const to, allocate(rows * row_bytes));
  const std::int64_t step = std::clamp<std::int64_t>(kStagingBytes / std::max<std::int64_t>(row_bytes, 1), 1, rows);
  std::vector<std::byte> staging(static_cast<std::size_t>(step * row_bytes));
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    write(first, count, staging.data());
    device_.upload(to + first * row_bytes, std::span(staging).first(static_cast<std::size_t>(count * row_bytes)));
  }
  return to;
}

Result<std::vector<const std::byte*>> WeightMemory::random(std::span<const RandomMatrix> matrices) {
  std::vector<std::int64_t> offsets;
  std::int64_t bytes = 0;
  for (const RandomMatrix& matrix : matrices) {
    offsets.push_back(bytes);
    bytes += (dtype_bytes(matrix.dtype, matrix.rows * matrix.cols) + kAlignment - 1) / kAlignment * kAlignment;
  }
  OCTAVO_TRY(std::byte* const to, allocate(bytes));
  std::vector<const std::byte*> places;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    device_.fill_random(to + offsets[i], matrices[i]);
    places.push_back(to + offsets[i]);
  }
  return places;
}

Result<const std::byte*> WeightMemory::floats(std::span<const float> numbers) {
  OCTAVO_TRY(std::byte* const to, allocate(static_cast<std::int64_t>(numbers.size_bytes())));
  device_.upload(to, std::as_bytes(numbers));
  return to;
}

std::vector<Buffer> WeightMemory::take_buffers() { return std::exchange(buffers_, {}); }

}  // namespace octavo
