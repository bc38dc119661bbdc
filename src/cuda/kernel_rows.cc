#include "cuda/kernel_rows.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/strings.h"
#include "cuda/attention_plan.h"
#include "cuda/check.h"
#include "cuda/few_rows.h"
#include "cuda/portable/latent_params.h"
#include "cuda/portable/params.h"
#include "cuda/sm90/rows.h"

namespace octavo::cuda {

namespace {

constexpr int kMeasurements = 5;
constexpr int kMostLaunches = 20;       // of one measurement
constexpr double kMeasurementMs = 2.0;  // shorter launches are repeated within one

// "sm_90a" of 90, as this program was compiled; without a number all of them.
std::string compiled_for(int version) {
  std::vector<std::string> names;
  for (const std::string_view text : split(OCTAVO_CUDA_ARCHS, " ")) {
    const std::string_view arch = text.substr(0, text.find('-'));
    const std::string name = "sm_" + std::string(arch);
    if (version == 0 || std::string(arch).starts_with(std::to_string(version))) names.push_back(name);
  }
  return names.empty() ? "sm_" + std::to_string(version) : join(names, " ");
}

// Ok where a device can be asked of kernels.
Status device_answers() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return {};
  return Error(status == cudaSuccess ? "no GPU was found" : cudaGetErrorString(status), ErrorKind::unavailable);
}

std::vector<KernelEntry> all_kernels() {
  std::vector<KernelEntry> entries = attention_kernels();
  for (const auto& more : {kv_write_kernels(), few_rows_kernels(), one_row_kernels(), tile_rows_kernels()})
    entries.insert(entries.end(), more.begin(), more.end());
  KernelEntry product;
  product.row.name = "linear.product.bf16";
  product.row.phase = KernelPhase::linear;
  product.row.weight = DType::bf16;
  entries.push_back(product);
  return entries;
}

Result<KernelEntry> entry_of(const std::string& name) {
  for (KernelEntry& entry : all_kernels())
    if (entry.row.name == name) return std::move(entry);
  return Error("no kernel row is named " + in_quotes(name) + ": octavo advise --kernels lists them");
}

Status wrong_shape(const KernelRow& row) {
  return Error("the kernel row " + row.name + " does not serve this work", ErrorKind::unsupported);
}

Status fits(const KernelRow& row, const KernelWork& work) {
  if (work.attention != nullptr) {
    const AttentionWork& a = *work.attention;
    const KvFormat& format = a.kv.format;
    const bool decodes = row.phase == KernelPhase::decode;
    if (!decodes && row.phase != KernelPhase::prefill) return wrong_shape(row);
    const bool latent = row.rope_dim > 0;  // whose rope keys may be of any kind
    const bool serves = is_latent(format) == latent && format.segments[0].elem == row.key &&
                        (latent || format.segments[1].elem == row.value) && format.segments[0].width == row.head_dim &&
                        format.segments[1].width == (latent ? row.rope_dim : row.head_dim) &&
                        a.batch.num_decodes == (decodes ? a.batch.num_seqs : 0);
    return serves ? Status() : wrong_shape(row);
  }
  if (work.kv_write != nullptr)
    return row.phase == KernelPhase::kv_write && work.kv_write->q.size(2) == row.head_dim ? Status() : wrong_shape(row);
  if (work.linear == nullptr || row.phase != KernelPhase::linear) return wrong_shape(row);
  const LinearArgs& linear = *work.linear;
  const bool one = linear.weight.parts.size() == 1 && linear.weight.parts[0].values.dtype() == row.weight;
  const std::int64_t tokens = linear.x.size(0);
  const bool serves = row.max_tokens == 0 ? tokens > kMaxFewRows : tokens == row.max_tokens;
  if (!one || !serves) return wrong_shape(row);
  const std::string kind = "linear." + std::string(few_rows_kind(tokens, linear.weight.parts[0])) + ".";
  if (row.max_tokens > 1 && row.weight == DType::bf16)
    return Error("the library serves several rows of bf16", ErrorKind::unsupported);
  if (row.max_tokens > 0 && !row.name.starts_with(kind))
    return Error("another kind of kernel for few rows serves its shape", ErrorKind::unsupported);
  return {};
}

// Time of one launch in ms: launches are recorded and replayed, as in a step, so that none waits for the host.
class LaunchTimer {
 public:
  explicit LaunchTimer(CudaDevice& device) : device_(device) {
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event));
  }
  LaunchTimer(const LaunchTimer&) = delete;
  LaunchTimer& operator=(const LaunchTimer&) = delete;
  ~LaunchTimer() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  Result<double> median_ms(const std::function<void()>& launch) {
    OCTAVO_TRY(const auto once, device_.record(launch));
    once->replay();
    const double estimate = replay_ms(*once);
    const int launches = std::clamp(static_cast<int>(kMeasurementMs / std::max(estimate, 1e-3)), 1, kMostLaunches);
    OCTAVO_TRY(const auto several, device_.record([&] {
      for (int i = 0; i < launches; ++i) launch();
    }));
    several->replay();
    std::array<double, kMeasurements> times{};
    for (double& time : times) time = replay_ms(*several) / launches;
    std::sort(times.begin(), times.end());
    return times[kMeasurements / 2];
  }

 private:
  double replay_ms(Recording& recording) {
    check(cudaEventRecord(events_[0], device_.stream()));
    recording.replay();
    check(cudaEventRecord(events_[1], device_.stream()));
    check(cudaEventSynchronize(events_[1]));
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, events_[0], events_[1]));
    return ms;
  }

  CudaDevice& device_;
  std::array<cudaEvent_t, 2> events_{};
};

Result<double> run_attention(CudaDevice& device, Ops& ops, const KernelRow& row, const AttentionWork& work) {
  const AttentionShape shape{.format = work.kv.format,
                             .q_heads = static_cast<std::int32_t>(work.query.values.size(1)),
                             .page_size = work.kv.page_size,
                             .window = work.rule.window,
                             .soft_cap = work.rule.soft_cap > 0,
                             .sinks = !work.rule.sinks.empty()};
  OCTAVO_TRY(const auto plan, ops.make_plan(shape, work.batch.num_seqs, work.batch.num_tokens));
  const auto phase = row.phase == KernelPhase::decode ? portable::Phase::decode : portable::Phase::prefill;
  const RowLaunch& chosen = static_cast<const PagePlan&>(*plan).launch(work.kv.format, phase);
  if (row.name != chosen.row->name)
    return Error(std::string("on this device ") + chosen.row->name + " serves its shape", ErrorKind::unsupported);
  ops.plan_attention({.batch = work.batch, .shape = shape, .plan = *plan});
  const AttentionArgs args{
      .query = work.query, .kv = work.kv, .batch = work.batch, .plan = *plan, .rule = work.rule, .out = work.out};
  return LaunchTimer(device).median_ms([&] { ops.attention(args); });
}

KernelEntry entry_of(const portable::KernelRow& built) {
  KernelEntry entry;
  entry.row.name = built.name;
  entry.row.phase = built.phase == portable::Phase::decode ? KernelPhase::decode : KernelPhase::prefill;
  entry.row.head_dim = built.width;
  entry.row.key = built.key;
  entry.row.value = built.value;
  entry.row.products_in_8_bits = built.products_in_8_bits;
  entry.row.threads = built.threads;
  entry.row.shared_bytes = built.shared_bytes + built.shared_bytes_a_row * kDecodeRows;
  entry.function = reinterpret_cast<const void*>(built.kernel);
  return entry;
}

}  // namespace

std::vector<KernelEntry> attention_kernels() {
  std::vector<KernelEntry> entries;
  for (const auto& rows : {sm90::all_rows(), portable::rows_of_64(), portable::rows_of_128(), portable::rows_of_256(),
                           portable::wide_rows_of_256(), portable::rows_of_512()})
    for (const portable::KernelRow& built : rows) entries.push_back(entry_of(built));
  for (const portable::LatentRow& built : portable::latent_rows()) {
    KernelEntry entry = entry_of(built.row);
    entry.row.rope_dim = kRopeImage;
    entry.function = reinterpret_cast<const void*>(built.kernel);
    entries.push_back(std::move(entry));
  }
  return entries;
}

KernelInventory list_kernels() {
  KernelInventory list;
  const Status there = device_answers();
  if (!there)
    list.note =
        "registers, shared memory beside what a launch asks for, and spills are a device's answer, and here is "
        "none: " +
        there.error().message();
  for (KernelEntry& entry : all_kernels()) {
    KernelRow& row = entry.row;
    cudaFuncAttributes facts{};
    if (entry.function == nullptr) {
      row.architecture = "cuBLASLt's";
    } else if (there && cudaFuncGetAttributes(&facts, entry.function) == cudaSuccess) {
      row.architecture = compiled_for(facts.binaryVersion);
      row.registers = facts.numRegs;
      row.spill_bytes = static_cast<std::int32_t>(facts.localSizeBytes);
      row.shared_bytes += static_cast<std::int32_t>(facts.sharedSizeBytes);
    } else {
      cudaGetLastError();  // a refusal of the question is no fault of the device
      row.architecture = compiled_for(0);
      if (there) list.note = "this program has no machine code for the GPU that is here, so its figures are missing";
    }
    list.rows.push_back(std::move(row));
  }
  return list;
}

Result<double> run_row(CudaDevice& device, Ops& ops, const std::string& name, const KernelWork& work) {
  OCTAVO_TRY(const KernelEntry entry, entry_of(name));
  OCTAVO_TRY(fits(entry.row, work));
  if (work.attention != nullptr) return run_attention(device, ops, entry.row, *work.attention);
  if (work.kv_write != nullptr) return LaunchTimer(device).median_ms([&] { ops.kv_write(*work.kv_write); });
  return LaunchTimer(device).median_ms([&] { ops.linear(*work.linear); });
}

}  // namespace octavo::cuda
