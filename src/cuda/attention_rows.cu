#include <algorithm>
#include <string>

#include "base/check.h"
#include "cuda/attention_rows.h"
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

bool has_kinds(const KernelRow& row, const KvFormat& format) {
  return row.key == format.segments[0].elem && row.value == format.segments[1].elem;
}

int group_of(const AttentionShape& shape) { return shape.q_heads / shape.format.segments[0].heads; }

std::string kib(int bytes) { return std::to_string((bytes + 1023) / 1024) + " KiB"; }

Error unsupported(const std::string& sentence) { return Error(sentence, ErrorKind::unsupported); }

}  // namespace

Status rows_serve(const AttentionShape& shape, int shared_limit) {
  const KvSegment& key = shape.format.segments[0];
  const KvSegment& value = shape.format.segments[1];
  if (key.part == KvPart::latent)
    return unsupported("attention over a latent cache has no kernel on CUDA yet: use --device cpu");
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
  std::vector<const KernelRow*> rows;
  if (!deterministic) rows = hopper_rows(shape);  // first, so that they are chosen
  for (const Phase phase : {Phase::decode, Phase::prefill})
    for (const KernelRow& row : table_of(shape.format.segments[0].width, phase, group_of(shape), limit))
      if (row.phase == phase && shared_bytes(row, group_of(shape)) <= limit) rows.push_back(&row);
  std::vector<RowLaunch> launches;
  for (const KernelRow* row : rows) {
    RowLaunch launch{.row = row, .shared_bytes = shared_bytes(*row, group_of(shape))};
    const bool ready =
        cudaFuncSetAttribute(row->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes) ==
            cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&launch.blocks, row->kernel, row->threads,
                                                      static_cast<std::size_t>(launch.shared_bytes)) == cudaSuccess;
    cudaFuncAttributes loaded;  // a kernel is loaded when it is first asked for, and recordings do not allow that
    if (!ready || launch.blocks == 0 ||
        (row->join != nullptr && cudaFuncGetAttributes(&loaded, row->join) != cudaSuccess))
      return Error("kernel " + std::string(row->name) + " cannot be launched on this GPU: use --device cpu",
                   ErrorKind::unavailable);
    launches.push_back(launch);
  }
  return launches;
}

}  // namespace octavo::cuda
