#include <algorithm>
#include <cmath>
#include <numeric>

#include "kv/codec.h"
#include "tool/kernel_trial.h"

namespace octavo {

namespace {

constexpr int kPageTokens = 64;
constexpr std::int64_t kTokens = 8192;
constexpr int kQueryHeads = 32, kKvHeads = 8;
constexpr double kEps = 1e-6;
constexpr double kRopeBase = 10000.0;

KvFormat format_of(KvElem elem, int width) {
  KvFormat format;
  format.num_segments = 2;
  for (const int i : {0, 1}) {
    KvSegment& segment = format.segments[i];
    segment.part = i == 0 ? KvPart::key : KvPart::value;
    segment.elem = elem;
    segment.grain = is_8bit(elem) ? KvGrain::head : KvGrain::none;
    segment.heads = kKvHeads;
    segment.width = width;
  }
  return format;
}

// The inputs of a writer: rows of q, k and v side by side, as a projection leaves them.
struct Inputs {
  std::vector<std::uint16_t> rows;  // bf16 [kTokens, kQueryHeads + 2 kKvHeads, width]
  std::vector<float> norm, inv_freq;
  Tensor q, k, v, norm_weight, frequencies, positions, slots;
};

Result<Inputs> put_inputs(TrialMemory& memory, int width, std::uint64_t seed) {
  Inputs in;
  const std::int64_t heads = kQueryHeads + 2 * kKvHeads;
  in.rows = TrialNumbers(seed).normals(kTokens * heads * width);
  for (int d = 0; d < width; ++d) in.norm.push_back(0.5f + static_cast<float>(d) / static_cast<float>(width));
  for (int i = 0; i < width / 2; ++i) in.inv_freq.push_back(static_cast<float>(std::pow(kRopeBase, -2.0 * i / width)));
  std::vector<std::int32_t> positions(kTokens), slots(kTokens);
  std::iota(positions.begin(), positions.end(), 0);
  std::iota(slots.begin(), slots.end(), kPageTokens);  // from page 1 on
  OCTAVO_TRY(const Tensor rows,
             memory.put(std::span<const std::uint16_t>(in.rows), DType::bf16, {kTokens, heads * width}));
  in.q = rows.columns(0, kQueryHeads * width).split_last(kQueryHeads, width);
  in.k = rows.columns(kQueryHeads * width, kKvHeads * width).split_last(kKvHeads, width);
  in.v = rows.columns((kQueryHeads + kKvHeads) * width, kKvHeads * width).split_last(kKvHeads, width);
  OCTAVO_TRY(in.norm_weight, memory.put(std::span<const float>(in.norm), DType::f32, {width}));
  OCTAVO_TRY(in.frequencies, memory.put(std::span<const float>(in.inv_freq), DType::f32, {width / 2}));
  OCTAVO_TRY(in.positions, memory.put(std::span<const std::int32_t>(positions), DType::i32, {kTokens}));
  OCTAVO_TRY(in.slots, memory.put(std::span<const std::int32_t>(slots), DType::i32, {kTokens}));
  return in;
}

std::vector<float> downloaded_floats(Device& device, const Tensor& numbers) {
  std::vector<float> floats;
  if (numbers.dtype() == DType::bf16) {
    for (const std::uint16_t bits : downloaded_bf16(device, numbers)) floats.push_back(f32_from_bf16(bits));
  } else {
    floats.resize(static_cast<std::size_t>(numbers.elements()));
    device.download(std::as_writable_bytes(std::span(floats)), numbers.raw());
  }
  return floats;
}

// One query row after norm and rope, in double.
std::vector<double> prepared(const Inputs& in, const std::uint16_t* row, int width, std::int64_t position) {
  std::vector<double> x(static_cast<std::size_t>(width));
  for (std::size_t d = 0; d < x.size(); ++d) x[d] = f32_from_bf16(row[d]);
  const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  const double factor = 1.0 / std::sqrt(squares / width + kEps);
  for (std::size_t d = 0; d < x.size(); ++d) x[d] *= factor * in.norm[d];
  const std::size_t half = x.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    // The angle is a product in float32, as the contract says.
    const double angle = static_cast<float>(position) * in.inv_freq[i];
    const double a = x[i], b = x[i + half];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[i + half] = b * std::cos(angle) + a * std::sin(angle);
  }
  return x;
}

double error_of(const Inputs& in, int width, const std::vector<float>& got) {
  TrialError error;
  for (const std::int64_t token : {std::int64_t{0}, std::int64_t{63}, std::int64_t{64}, kTokens / 2 + 5, kTokens - 1})
    for (const int head : {0, kQueryHeads - 1}) {
      const auto* row = in.rows.data() + (token * (kQueryHeads + 2 * kKvHeads) + head) * width;
      const std::vector<double> want = prepared(in, row, width, token);
      for (int d = 0; d < width; ++d)
        error.add(got[static_cast<std::size_t>((token * kQueryHeads + head) * width + d)],
                  want[static_cast<std::size_t>(d)]);
    }
  return error.relative();
}

Result<KernelTrial> run(Backend& backend, const KernelRow& row, KvElem elem, std::uint64_t seed) {
  const int width = row.head_dim;
  TrialMemory memory(backend.device());
  OCTAVO_TRY(const Inputs in, put_inputs(memory, width, seed));
  KvView view;
  view.format = format_of(elem, width);
  view.page_size = kPageTokens;
  view.page_bytes = bytes_per_page(view.format, kPageTokens);
  view.num_pages = kTokens / kPageTokens + 1;
  const auto bytes = static_cast<std::size_t>(view.page_bytes * view.num_pages);
  OCTAVO_TRY(view.pages, memory.reserve(bytes));
  backend.device().fill_zero(view.pages, bytes);
  const std::vector<float> scale_numbers(kKvHeads, 0.02f);
  OCTAVO_TRY(const Tensor scales, memory.put(std::span<const float>(scale_numbers), DType::f32, {kKvHeads}));
  view.scales[0] = view.scales[1] = scales.data<float>();
  const KvCounters fresh;
  OCTAVO_TRY(const Tensor counters, memory.put(std::as_bytes(std::span(&fresh, 1)), DType::u8, {sizeof fresh}));
  view.counters = reinterpret_cast<KvCounters*>(counters.raw());
  const QuerySpec spec = backend.ops().query_spec(view.format);
  if (spec.has_scale || spec.width_factor != 1)
    return Error("queries that are kept in 8 bits have no reference yet", ErrorKind::unsupported);
  OCTAVO_TRY(const Tensor query, memory.blank(spec.dtype, {kTokens, kQueryHeads, width}));

  const NormRule norm{.weight = in.norm_weight, .eps = static_cast<float>(kEps), .rounded_first = false};
  const KvWriteArgs args{.q = in.q,
                         .k = in.k,
                         .v = in.v,
                         .q_norm = &norm,
                         .k_norm = &norm,
                         .rope = {.inv_freq = in.frequencies},
                         .positions = in.positions,
                         .slots = in.slots,
                         .kv = view,
                         .query = {query, {}}};
  KernelTrial trial{.row = row.name, .shape = "8k " + std::string(name_of(elem))};
  OCTAVO_TRY(trial.ms, backend.run_row(row.name, {.kv_write = &args}));
  trial.bytes = static_cast<double>(kTokens * bytes_per_token(view.format)) +
                2.0 * static_cast<double>(std::ssize(in.rows) + query.elements());
  const std::vector<float> got = downloaded_floats(backend.device(), query);
  const bool finite = std::all_of(got.begin(), got.end(), [](float x) { return std::isfinite(x); });
  trial.error = finite ? error_of(in, width, got) : std::nan("");
  return trial;
}

}  // namespace

Result<std::vector<KernelTrial>> writer_trials(Backend& backend, const KernelRow& row, std::uint64_t seed) {
  std::vector<KernelTrial> trials;
  for (const KvElem elem : {KvElem::bf16, KvElem::e4m3}) {
    OCTAVO_TRY(KernelTrial trial, run(backend, row, elem, seed));
    trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace octavo
