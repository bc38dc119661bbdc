#include <array>
#include <cstring>
#include <utility>

#include "checkpoint/binder.h"
#include "checkpoint/shard.h"
#include "checkpoint/weight_memory.h"
#include "tensor/float8.h"

namespace octavo {
namespace {

constexpr float kSpread = 0.035f;
constexpr std::size_t kLevels = 4096;
constexpr std::uint64_t kPerHash = 4;  // numbers from one hash of 64 bits, 12 bits each

// Evenly spaced numbers in +-kSpread: a look-up is cheaper than a conversion, and fills more than a GB/s.
std::array<std::uint16_t, kLevels> make_levels() {
  std::array<std::uint16_t, kLevels> levels{};
  for (std::size_t i = 0; i < kLevels; ++i)
    levels[i] = bf16_from_f32((2 * static_cast<float>(i) + 1 - kLevels) / kLevels * kSpread);
  return levels;
}

// A hash of a counter (splitmix64's finalizer): any element can be made alone, so shards equal cuts of the whole.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t key_of(const std::string& name, std::uint64_t seed) {
  std::uint64_t key = mixed(seed + 0x9E3779B97F4A7C15u);
  for (const char c : name) key = mixed(key ^ static_cast<unsigned char>(c));
  return key;
}

bool is_norm(const std::string& name) { return name.find("norm") != std::string::npos; }

}  // namespace

struct DummyBinder::State {
  WeightMemory memory;
  RankOf rank;
  std::uint64_t seed;
  std::array<std::uint16_t, kLevels> levels = make_levels();

  std::uint16_t element(std::uint64_t hash, std::uint64_t lane) const {
    return levels[(hash >> (16 * lane)) % kLevels];
  }

  // Elements [index, index + count) of the matrix with this key, as bf16.
  void fill(std::uint64_t key, std::uint64_t index, std::uint64_t count, std::uint16_t* to) const {
    const std::uint64_t end = index + count;
    while (index < end) {
      const std::uint64_t hash = mixed(key + index / kPerHash * 0x9E3779B97F4A7C15u);
      if (index % kPerHash == 0 && end - index >= kPerHash) {
        for (std::uint64_t lane = 0; lane < kPerHash; ++lane) *to++ = element(hash, lane);
        index += kPerHash;
      } else {
        *to++ = element(hash, index % kPerHash);
        ++index;
      }
    }
  }
};

DummyBinder::DummyBinder(Device& device, RankOf rank, std::uint64_t seed)
    : state_(new State{WeightMemory(device), rank, seed}) {}

DummyBinder::~DummyBinder() = default;

Status DummyBinder::weight(Weight& target, std::span<const PartRequest> parts, std::int64_t in) {
  Weight weight;
  for (const PartRequest& request : parts) {
    Range rows{0, request.out};
    Range cols{0, in};
    if (request.cut == Cut::rows) {
      OCTAVO_TRY(rows, cut_range(request.out, request.unit, state_->rank, true).in(request.name));
    }
    if (request.cut == Cut::columns) {
      OCTAVO_TRY(cols, cut_range(in, request.unit, state_->rank, false).in(request.name));
    }
    const std::uint64_t key = key_of(request.name, state_->seed);
    const auto write = [&](std::int64_t first, std::int64_t count, std::byte* to) {
      for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t index = (rows.begin + first + r) * in + cols.begin;
        state_->fill(key, static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(cols.count),
                     reinterpret_cast<std::uint16_t*>(to) + r * cols.count);
      }
    };
    WeightPart part;
    OCTAVO_TRY(const std::byte* data, state_->memory.make(rows.count, dtype_bytes(DType::bf16, cols.count), write));
    part.values = Tensor(data, DType::bf16, {rows.count, cols.count});
    weight.out += rows.count;
    weight.in = cols.count;
    weight.parts.push_back(std::move(part));
  }
  target = std::move(weight);
  return {};
}

Status DummyBinder::vectors(Tensor& target, std::span<const PartRequest> parts) {
  std::vector<float> stacked;
  for (const PartRequest& request : parts) {
    Range rows{0, request.out};
    if (request.cut == Cut::rows) {
      OCTAVO_TRY(rows, cut_range(request.out, request.unit, state_->rank, true).in(request.name));
    }
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(rows.count), bf16_from_f32(1.0f));
    if (!is_norm(request.name))
      state_->fill(key_of(request.name, state_->seed), static_cast<std::uint64_t>(rows.begin), bits.size(),
                   bits.data());
    for (const std::uint16_t number : bits) stacked.push_back(f32_from_bf16(number));
  }
  return constant(target, stacked);
}

Status DummyBinder::constant(Tensor& target, std::span<const float> values) {
  OCTAVO_TRY(const std::byte* data, state_->memory.floats(values));
  target = Tensor(data, DType::f32, {static_cast<std::int64_t>(values.size())});
  return {};
}

bool DummyBinder::has(const std::string&) const { return false; }

Result<StoredScales> DummyBinder::kv_scales(const std::string&, int, int) { return StoredScales(); }

std::vector<Buffer> DummyBinder::take_buffers() { return state_->memory.take_buffers(); }

}  // namespace octavo
