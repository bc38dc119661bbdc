#include "cuda/attention_rows.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "cuda/sm90/rows.h"

namespace octavo::cuda {

namespace {

using portable::KernelRow;
using portable::Phase;

struct Tables {
  std::span<const KernelRow> narrow, wide;
};

Tables tables_of(int width) {
  switch (image_width(width)) {
    case 64:
      return {portable::rows_of_64(), {}};
    case 128:
      return {portable::rows_of_128(), {}};
    case 256:
      return {portable::rows_of_256(), portable::wide_rows_of_256()};
    default:
      return {{}, portable::rows_of_512()};
  }
}

int shared_bytes(const KernelRow& row, int group) {
  return row.shared_bytes + std::max(row.shared_bytes_a_row * std::min(group, kDecodeRows), row.shared_bytes_at_least);
}

// One table for all kinds of a phase, so that one list of tiles serves all layers of a group: the first whose kinds all
// fit, or the last.
std::span<const KernelRow> table_of(int width, Phase phase, int group, int limit) {
  const Tables tables = tables_of(width);
  const auto fits = [&](const KernelRow& row) { return row.phase != phase || shared_bytes(row, group) <= limit; };
  const bool narrow =
      tables.wide.empty() || (!tables.narrow.empty() && std::all_of(tables.narrow.begin(), tables.narrow.end(), fits));
  return narrow ? tables.narrow : tables.wide;
}

// Hopper's own, where this GPU is one and they serve the shape: those of chunks know no cap on scores.
std::vector<const KernelRow*> hopper_rows(const AttentionShape& shape) {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess || major != 9 ||
      minor != 0)
    return {};
  std::vector<const KernelRow*> rows;
  for (const KernelRow& row : sm90::all_rows())
    if (row.width == shape.format.segments[0].width && (row.phase == Phase::decode || !shape.soft_cap))
      rows.push_back(&row);
  return rows;
}

int group_of(const AttentionShape& shape) { return shape.q_heads / shape.format.segments[0].heads; }

std::string kib(int bytes) { return std::to_string((bytes + 1023) / 1024) + " KiB"; }

Error unsupported(const std::string& sentence) { return Error(sentence, ErrorKind::unsupported); }

Status latents_serve(const AttentionShape& shape, int shared_limit) {
  const KvSegment& latent = shape.format.segments[0];
  const KvSegment& rope = shape.format.segments[1];
  if (!has_latent_layout(latent.width, rope.width))
    return unsupported("attention on CUDA serves latents of 16 to " + std::to_string(kLatentImage) +
                       " numbers and rope keys of 16 to " + std::to_string(kRopeImage) +
                       ", in steps of 16, but this model has " + std::to_string(latent.width) + " and " +
                       std::to_string(rope.width) + ": use --device cpu");
  if (rope.elem == KvElem::f32)
    return unsupported("attention on CUDA has no rope keys in float32: choose --kv-cache-rope-dtype bfloat16 or fp8");
  for (const Phase phase : {Phase::decode, Phase::prefill}) {
    const auto rows = portable::latent_rows();
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const portable::LatentRow& built) {
      return built.row.phase == phase && has_kinds(built.row, shape.format);
    });
    if (found == rows.end())
      return unsupported("attention on CUDA has no kernel for a latent cache of " + std::string(name_of(latent.elem)) +
                         ": choose --kv-cache-dtype bfloat16, fp8, fp8_e5m2 or int8");
    if (found->row.shared_bytes > shared_limit)
      return unsupported("attention over a latent cache needs " + kib(found->row.shared_bytes) +
                         " of shared memory, but this GPU gives a block " + kib(shared_limit) + ": use --device cpu");
  }
  return {};
}

// What is chosen from, in the order of choice; shared memory is that of the shape.
std::vector<RowLaunch> rows_of(const AttentionShape& shape, bool deterministic, int limit) {
  std::vector<RowLaunch> launches;
  if (is_latent(shape.format)) {
    for (const portable::LatentRow& row : portable::latent_rows())
      launches.push_back({.row = &row.row, .latent_kernel = row.kernel, .shared_bytes = row.row.shared_bytes});
    return launches;
  }
  const int group = group_of(shape);
  if (!deterministic)  // first, so that they are chosen
    for (const KernelRow* row : hopper_rows(shape))
      launches.push_back({.row = row, .shared_bytes = shared_bytes(*row, group)});
  for (const Phase phase : {Phase::decode, Phase::prefill})
    for (const KernelRow& row : table_of(shape.format.segments[0].width, phase, group, limit))
      if (row.phase == phase && shared_bytes(row, group) <= limit)
        launches.push_back({.row = &row, .shared_bytes = shared_bytes(row, group)});
  return launches;
}

Status make_ready(RowLaunch& launch) {
  const KernelRow& row = *launch.row;
  const void* kernel = launch.latent_kernel != nullptr ? reinterpret_cast<const void*>(launch.latent_kernel)
                                                       : reinterpret_cast<const void*>(row.kernel);
  const bool ready =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes) == cudaSuccess &&
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&launch.blocks, kernel, row.threads,
                                                    static_cast<std::size_t>(launch.shared_bytes)) == cudaSuccess;
  cudaFuncAttributes loaded;  // a kernel is loaded when it is first asked for, and recordings do not allow that
  if (ready && launch.blocks > 0 &&
      (row.join == nullptr || cudaFuncGetAttributes(&loaded, reinterpret_cast<const void*>(row.join)) == cudaSuccess))
    return {};
  return Error("kernel " + std::string(row.name) + " cannot be launched on this GPU: use --device cpu",
               ErrorKind::unavailable);
}

}  // namespace

bool has_kinds(const KernelRow& row, const KvFormat& format) {
  return row.key == format.segments[0].elem && (is_latent(format) || row.value == format.segments[1].elem);
}

Status rows_serve(const AttentionShape& shape, int shared_limit) {
  const KvSegment& key = shape.format.segments[0];
  const KvSegment& value = shape.format.segments[1];
  if (is_latent(shape.format)) return latents_serve(shape, shared_limit);
  if (key.width != value.width)
    return unsupported("attention on CUDA reads V as wide as K, but this model has K of " + std::to_string(key.width) +
                       " and V of " + std::to_string(value.width) + " numbers a head: use --device cpu");
  if (!has_page_layout(key.width))
    return unsupported("attention on CUDA serves heads of 16 to " + std::to_string(kLargestWidth) +
                       " numbers in steps of 16, but this model has " + std::to_string(key.width) +
                       ": use --device cpu");
  for (const Phase phase : {Phase::decode, Phase::prefill}) {
    const auto table = table_of(key.width, phase, group_of(shape), shared_limit);
    const auto row = std::find_if(table.begin(), table.end(), [&](const KernelRow& built) {
      return built.phase == phase && has_kinds(built, shape.format);
    });
    if (row == table.end())
      return unsupported("attention on CUDA has no kernel for a cache of " + std::string(name_of(key.elem)) + ":" +
                         std::string(name_of(value.elem)) +
                         ": choose --kv-cache-dtype bfloat16, fp8, fp8_e5m2, int8, int8:fp8 or bfloat16:fp8");
    if (const int bytes = shared_bytes(*row, group_of(shape)); bytes > shared_limit)
      return unsupported("attention over a " + std::string(name_of(key.elem)) + " cache of heads of " +
                         std::to_string(key.width) + " numbers needs " + kib(bytes) +
                         " of shared memory, but this GPU gives a block " + kib(shared_limit) +
                         ": choose an 8-bit --kv-cache-dtype, or --device cpu");
  }
  return {};
}

int shared_limit() {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess)
    return 0;
  return bytes;
}

Result<std::vector<RowLaunch>> ready_rows(const AttentionShape& shape, bool deterministic) {
  const int limit = shared_limit();
  OCTAVO_TRY(rows_serve(shape, limit));
  std::vector<RowLaunch> launches = rows_of(shape, deterministic, limit);
  for (RowLaunch& launch : launches) OCTAVO_TRY(make_ready(launch));
  return launches;
}

}  // namespace octavo::cuda
