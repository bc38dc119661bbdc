#include "kv/store.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/strings.h"

namespace octavo {
namespace {

constexpr std::int64_t kAlignment = 256;     // of a layer's pages; a wing's widest copy needs 128
constexpr std::int64_t kCounterStride = 64;  // a cache line each, so that layers do not disturb each other
constexpr std::int64_t kMaxTokenSlots = std::int64_t{1} << 31;  // a slot (page * page_size + place) is 32 bits
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;

std::int64_t aligned(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

// Bytes of one layer's pages, or of the parts of its records one after the other, each aligned.
std::int64_t layer_bytes(const StoreSpec& spec, std::size_t group, const KvFormat& format) {
  const std::int64_t pages = spec.num_pages[group];
  if (spec.groups[group].lifetime != Lifetime::state)
    return aligned(bytes_per_page(format, spec.page_size) * pages, kAlignment);
  std::int64_t bytes = 0;
  for (const std::int64_t numbers : spec.groups[group].state_parts)
    bytes += aligned(numbers * pages * static_cast<std::int64_t>(sizeof(float)), kAlignment);
  return bytes;
}

Error layer_error(int layer, const std::string& why, ErrorKind kind = ErrorKind::invalid) {
  return Error("the KV cache of layer " + std::to_string(layer) + ": " + why, kind);
}

Status check_spec(const StoreSpec& spec) {
  if (spec.page_size < 8 || !std::has_single_bit(static_cast<unsigned>(spec.page_size)))
    return Error("--block-size " + std::to_string(spec.page_size) +
                 ": a page holds a power of two of tokens, at least 8");
  check(spec.num_pages.size() == spec.groups.size(), "a page count for each cache group");
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    if (spec.num_pages[g] < 2)
      return Error("the KV cache needs at least one page for tokens and one for padding: raise --kv-cache-memory-bytes",
                   ErrorKind::exhausted);
    if (spec.groups[g].lifetime == Lifetime::state) continue;
    if (std::int64_t{spec.num_pages[g]} * spec.page_size > kMaxTokenSlots)
      return Error("the KV cache would hold more tokens than can be numbered (2^31): lower --kv-cache-memory-bytes");
  }
  return {};
}

// Given scales must be one a head, finite and above zero: a code is divided by them and multiplied back.
Status check_scales(int layer, const KvScales& scales, const KvSegment& segment) {
  if (segment.grain != KvGrain::tensor && segment.grain != KvGrain::head) return {};
  const bool is_key = segment.part == KvPart::key || segment.part == KvPart::latent;
  const std::vector<float>& given = is_key ? scales.key : scales.value;
  const std::string name = is_key ? "K" : "V";
  if (given.empty()) return {};
  if (given.size() != static_cast<std::size_t>(segment.heads))
    return layer_error(layer, std::to_string(given.size()) + " scales of " + name + " for " +
                                  std::to_string(segment.heads) + " KV heads");
  for (const float scale : given)
    if (!std::isfinite(scale) || scale <= 0.0f)
      return layer_error(layer,
                         "a scale of " + name + " is " + std::to_string(scale) + "; scales are finite and above zero");
  return {};
}

const KvScales& scales_of(const StoreSpec& spec, int layer) {
  static const KvScales kUncalibrated;
  return static_cast<std::size_t>(layer) < spec.scales.size() ? spec.scales[static_cast<std::size_t>(layer)]
                                                              : kUncalibrated;
}

}  // namespace

// Where each layer's part lies in the three buffers, before any memory is asked for.
struct KvStore::Plan {
  std::int64_t page_bytes = 0;
  std::vector<std::int64_t> page_offset;  // by owner, in the order of groups and their layers
  std::vector<float> scales;              // all layers' scales, one after another
  std::int64_t num_layers = 0;            // owners
};

Result<KvStore::Plan> KvStore::make_plan(const StoreSpec& spec) {
  Plan plan;
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    for (const LayerCache& layer : spec.groups[g].layers) {
      const bool is_state = spec.groups[g].lifetime == Lifetime::state;
      check(layer.layer >= 0 && (layer.format.num_segments == 0) == is_state, "a cache owner has a layer and a format");
      const std::int64_t page_bytes =
          is_state ? state_bytes(spec.groups[g]) : bytes_per_page(layer.format, spec.page_size);
      if (page_bytes <= 0 || page_bytes > (kMaxBytes - plan.page_bytes) / spec.num_pages[g])
        return layer_error(layer.layer, "its size does not fit into memory", ErrorKind::exhausted);
      plan.page_offset.push_back(plan.page_bytes);
      plan.page_bytes += layer_bytes(spec, g, layer.format);
      for (int s = 0; s < layer.format.num_segments; ++s) {
        const KvScales& scales = scales_of(spec, layer.layer);
        OCTAVO_TRY(check_scales(layer.layer, scales, layer.format.segments[s]));
        const std::vector<float> stored = stored_scales(scales, layer.format.segments[s]);
        plan.scales.insert(plan.scales.end(), stored.begin(), stored.end());
      }
      ++plan.num_layers;
    }
  }
  return plan;
}

Result<std::unique_ptr<KvStore>> KvStore::create(Device& device, StoreSpec spec) {
  OCTAVO_TRY(check_spec(spec));
  OCTAVO_TRY(const Plan plan, make_plan(spec));
  auto store = std::unique_ptr<KvStore>(new KvStore(device, std::move(spec)));
  if (const Status pages = store->allocate(plan.page_bytes, "the KV cache"); !pages)
    return Error(
        pages.error().message() + "; " + human_bytes(static_cast<std::uint64_t>(plan.page_bytes)) +
            " were needed: choose a smaller --kv-cache-memory-bytes or --max-model-len, or an 8-bit --kv-cache-dtype",
        pages.error().kind());
  OCTAVO_TRY(store->allocate(static_cast<std::int64_t>(plan.scales.size() * sizeof(float)), "the KV cache's scales"));
  OCTAVO_TRY(store->allocate(plan.num_layers * kCounterStride, "the KV cache's counters"));
  device.fill_zero(store->buffers_[0].data(), store->buffers_[0].size());
  device.fill_zero(store->buffers_[2].data(), store->buffers_[2].size());
  if (!plan.scales.empty()) device.upload(store->buffers_[1].data(), std::as_bytes(std::span(plan.scales)));
  store->place_layers(plan);
  device.synchronize();
  return store;
}

Status KvStore::allocate(std::int64_t bytes, const std::string& purpose) {
  // A cache without scales still gets an address, so that offsets need no special case.
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, kCounterStride));
  OCTAVO_TRY(Buffer buffer, device_.allocate(size, purpose));
  bytes_ += size;
  buffers_.push_back(std::move(buffer));
  return {};
}

void KvStore::place_layers(const Plan& plan) {
  const auto* scale = reinterpret_cast<const float*>(buffers_[1].data());
  std::size_t owner = 0;
  for (std::size_t g = 0; g < spec_.groups.size(); ++g) {
    for (const LayerCache& cache : spec_.groups[g].layers) {
      const auto index = static_cast<std::size_t>(cache.layer);
      if (layers_.size() <= index) layers_.resize(index + 1);
      Layer& layer = layers_[index];
      check(layer.group < 0, "a layer owns one cache");
      layer.group = static_cast<int>(g);
      layer.view.format = cache.format;
      layer.view.pages = buffers_[0].data() + plan.page_offset[owner];
      layer.view.page_bytes = bytes_per_page(cache.format, spec_.page_size);
      layer.view.page_size = spec_.page_size;
      layer.view.num_pages = spec_.num_pages[g];
      layer.view.counters =
          reinterpret_cast<KvCounters*>(buffers_[2].data() + static_cast<std::int64_t>(owner) * kCounterStride);
      std::byte* part = layer.view.pages;
      for (const std::int64_t numbers : spec_.groups[g].state_parts) {
        layer.state_parts.emplace_back(part, DType::f32,
                                       std::initializer_list<std::int64_t>{spec_.num_pages[g], numbers});
        part += aligned(layer.state_parts.back().bytes(), kAlignment);
      }
      for (int s = 0; s < cache.format.num_segments; ++s) {
        const KvSegment& segment = cache.format.segments[s];
        if (segment.grain != KvGrain::tensor && segment.grain != KvGrain::head) continue;
        layer.view.scales[s] = scale;
        scale += segment.heads;
      }
      ++owner;
    }
  }
}

KvView KvStore::view(int layer, const Tensor& page_table) const {
  check(group_of(layer) >= 0, "this layer has no cache");
  check(page_table.rank() == 2 && page_table.dtype() == DType::i32 && page_table.contiguous(),
        "a page table is i32 [num_seqs, max_pages]");
  KvView view = layers_[static_cast<std::size_t>(layer)].view;
  view.page_table = page_table.data<std::int32_t>();
  view.max_pages = static_cast<std::int32_t>(page_table.size(1));
  return view;
}

Tensor KvStore::pages(int layer) const {
  check(group_of(layer) >= 0, "this layer has no cache");
  const KvView& view = layers_[static_cast<std::size_t>(layer)].view;
  return {view.pages, DType::i32, {view.num_pages, view.page_bytes / std::int64_t{sizeof(std::int32_t)}}};
}

Tensor KvStore::state(int layer, int part) const {
  check(group_of(layer) >= 0, "this layer has no state");
  return layers_[static_cast<std::size_t>(layer)].state_parts.at(static_cast<std::size_t>(part));
}

int KvStore::group_of(int layer) const {
  return layer >= 0 && static_cast<std::size_t>(layer) < layers_.size() ? layers_[static_cast<std::size_t>(layer)].group
                                                                        : -1;
}

KvCounters KvStore::counters(int layer) const {
  check(group_of(layer) >= 0, "this layer has no cache");
  KvCounters counters;
  device_.download(std::as_writable_bytes(std::span(&counters, 1)),
                   reinterpret_cast<const std::byte*>(layers_[static_cast<std::size_t>(layer)].view.counters));
  return counters;
}

std::unique_ptr<Download> KvStore::begin_counters() const {
  return device_.begin_download(buffers_[2].data(), buffers_[2].size());
}

KvCounters KvStore::counters(Download& all, int layer) const {
  check(group_of(layer) >= 0, "this layer has no cache");
  const auto* place = reinterpret_cast<const std::byte*>(layers_[static_cast<std::size_t>(layer)].view.counters);
  KvCounters counters;
  std::memcpy(&counters, all.wait().data() + (place - buffers_[2].data()), sizeof counters);
  return counters;
}

std::string KvStore::identity() const {
  std::string text = "page " + std::to_string(spec_.page_size);
  std::string last;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (layers_[layer].group < 0) continue;
    const KvFormat& format = layers_[layer].view.format;
    std::string part = describe(format);
    for (int s = 0; s < format.num_segments; ++s) {
      char digits[16];
      for (const float scale : stored_scales(scales_of(spec_, static_cast<int>(layer)), format.segments[s])) {
        std::snprintf(digits, sizeof digits, " %08x", std::bit_cast<std::uint32_t>(scale));
        part += digits;
      }
    }
    text += "\n" + std::to_string(layer) + " " + (part == last ? "=" : part);
    last = std::move(part);
  }
  return text;
}

}  // namespace octavo
