#include "cpu/lane_weight.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "cpu/rows.h"

namespace octavo::cpu {

namespace {

constexpr std::int64_t kCacheLine = 64;
constexpr int kWordBytes = 4;

// A group of one row as GGUF has it: `head` bytes of f16, then words of codes.
struct Packing {
  LaneKind kind;
  int head;
  int words;
  std::uint32_t flip;  // signed codes become unsigned ones
};

std::optional<Packing> packing_of(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
      return Packing{LaneKind::q4_0, 2, 4, 0};
    case DType::q4_1:
      return Packing{LaneKind::q4_1, 4, 4, 0};
    case DType::q8_0:
      return Packing{LaneKind::q8_0, 2, 8, 0x80808080u};
    default:
      return std::nullopt;
  }
}

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

LaneTile layout_of(const WeightPart& part, const Packing& packing) {
  LaneTile tile;
  tile.kind = packing.kind;
  tile.groups = part.values.size(1) / kLaneGroup;
  tile.head_bytes = round_up(tile.groups * packing.head * kLaneOuts, kCacheLine);
  tile.block_bytes = tile.head_bytes + tile.groups * packing.words * kWordBytes * kLaneOuts;
  tile.end = part.values.size(0) / kLaneOuts;
  return tile;
}

void write_block(const WeightPart& part, const Packing& packing, const LaneTile& tile, std::int64_t block,
                 std::byte* to) {
  const int group_bytes = packing.head + packing.words * kWordBytes;
  std::byte* const codes = to + tile.head_bytes;
  for (int lane = 0; lane < kLaneOuts; ++lane) {
    const std::byte* from = row_at(part.values, block * kLaneOuts + lane);
    for (std::int64_t g = 0; g < tile.groups; ++g, from += group_bytes) {
      for (int i = 0; i < packing.head; i += 2)
        std::memcpy(to + g * packing.head * kLaneOuts + i * kLaneOuts + 2 * lane, from + i, 2);
      for (int i = 0; i < packing.words; ++i) {
        std::uint32_t word = 0;
        std::memcpy(&word, from + packing.head + i * kWordBytes, kWordBytes);
        word ^= packing.flip;
        std::memcpy(codes + ((g * packing.words + i) * kLaneOuts + lane) * kWordBytes, &word, kWordBytes);
      }
    }
  }
}

}  // namespace

bool LaneWeight::takes(const Weight& weight) {
  return std::all_of(weight.parts.begin(), weight.parts.end(), [](const WeightPart& part) {
    return packing_of(part.values.dtype()) && part.values.size(0) % kLaneOuts == 0;
  });
}

Result<std::shared_ptr<const LaneWeight>> LaneWeight::make(ThreadPool& pool, Device& device, const Weight& weight) {
  auto form = std::make_shared<LaneWeight>();
  std::int64_t bytes = 0;
  std::vector<std::int64_t> places;
  for (const WeightPart& part : weight.parts) {
    form->parts_.push_back(layout_of(part, *packing_of(part.values.dtype())));
    places.push_back(bytes);
    bytes += form->parts_.back().block_bytes * form->parts_.back().end;
    bytes = round_up(bytes, kCacheLine);
  }
  OCTAVO_TRY(form->memory_, device.allocate(static_cast<std::size_t>(bytes), "the weights"));
  for (std::size_t i = 0; i < places.size(); ++i) {
    LaneTile& tile = form->parts_[i];
    const WeightPart& part = weight.parts[i];
    const Packing packing = *packing_of(part.values.dtype());
    std::byte* const to = form->memory_.data() + places[i];
    pool.run(tile.end,
             [&](std::int64_t block) { write_block(part, packing, tile, block, to + block * tile.block_bytes); });
    tile.weight = reinterpret_cast<const std::uint8_t*>(to);
  }
  return std::shared_ptr<const LaneWeight>(std::move(form));
}

}  // namespace octavo::cpu
