// attention at lengths where a sum in too few bits shows: up to a quarter million keys, against sums in double.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <span>

#include "tests/conformance/attention_case.h"
#include "tests/conformance/numbers.h"

namespace octavo::conformance {
namespace {

// Rows of N(0.5, 1), repeated with a period that no tile has.
std::vector<float> flat_values(int width) {
  Random random(11);
  std::vector<float> values = random.normals(std::int64_t{4001} * width);
  for (float& x : values) x += 0.5f;
  return rounded(std::move(values), DType::bf16);
}

// Equal scores and V ~ N(0.5, 1): a sum in too few bits drops what is small beside it and is wrong by percents at long
// contexts. All sequences read one cache, so that only their lengths differ.
void expect_flat_error(Path& path, KvElem key, KvElem value, int width) {
  constexpr std::int32_t kLongest = 256 * 1024, kSlice = 16 * 1024, kPage = 64;
  Arena arena(path.backend->device());
  const KvFormat format{.segments = {{KvPart::key, key, grain_of(key, false), KvTransform::none, 1, width},
                                     {KvPart::value, value, grain_of(value, false), KvTransform::none, 1, width}},
                        .num_segments = 2};
  const std::vector<float> scales = {1.0f};
  Cache cache(arena, *path.backend, format, kPage, kLongest / kPage + 1, scales, scales);
  const std::vector<std::int32_t> contexts = {1024, 4096, 16384, 65536, kLongest,        // decodes
                                              1024, 4096, 16384, 65536, kLongest - 64};  // chunks of two rows
  std::vector<std::int32_t> pages;
  for (std::int32_t page = 1; page <= kLongest / kPage; ++page) pages.push_back(page);
  const std::vector<float> values = flat_values(width);
  const auto rows = seen_rows(format.segments[1], scales, values);
  std::vector<double> sums(static_cast<std::size_t>(width), 0.0);
  std::map<std::int32_t, std::vector<double>> sums_of;  // by number of tokens
  const std::vector<float> nothing(static_cast<std::size_t>(kSlice) * static_cast<std::size_t>(width), 0.0f);
  for (std::int32_t begin = 0; begin < kLongest; begin += kSlice) {
    std::vector<float> slice;
    std::vector<std::int32_t> slots;
    for (std::int32_t t = begin; t < begin + kSlice; ++t) {
      const auto row = static_cast<std::size_t>(t) % rows.size();
      const auto from = values.begin() + static_cast<std::ptrdiff_t>(row) * width;
      slice.insert(slice.end(), from, from + width);
      slots.push_back(t + kPage);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += rows[row][i];
      if (t % 64 >= 62) sums_of[t + 1] = sums;
    }
    const Tensor zeros = arena.floats(nothing, {kSlice, 1, width}, DType::bf16);
    cache.write(zeros, zeros, arena.floats(slice, {kSlice, 1, width}, DType::bf16), slots);
  }
  cache.set_table(std::vector<std::vector<std::int32_t>>(contexts.size(), pages));
  const std::vector<std::int32_t> starts = {0, 1, 2, 3, 4, 5, 7, 9, 11, 13, 15};
  const Query query = {
      arena.floats(std::vector<float>(static_cast<std::size_t>(15 * width), 0.0f), {15, 1, width}, DType::bf16),
      Tensor()};
  const std::vector<float> got = arena.read(
      attend(arena, *path.backend, cache, query, starts, contexts, {.scale = 1.0f, .sinks = {}}, DType::bf16));
  std::vector<double> want;
  for (std::size_t s = 0; s < contexts.size(); ++s)
    for (std::int32_t count = contexts[s] - (s >= 5 ? 1 : 0); count <= contexts[s]; ++count)
      for (const double sum : sums_of[count]) want.push_back(sum / count);
  for (std::size_t row = 0; row < 15; ++row)
    expect_close(std::string(name_of(key)) + ":" + std::string(name_of(value)) + " width " + std::to_string(width) +
                     " uniform, row " + std::to_string(row),
                 std::span(got).subspan(row * static_cast<std::size_t>(width), static_cast<std::size_t>(width)),
                 std::span(want).subspan(row * static_cast<std::size_t>(width), static_cast<std::size_t>(width)), width,
                 1e-3, DType::bf16);
}

// Where a device has the memory for it; the processor sums in float32 at any length.
TEST(Attention, ErrorIsFlatToAQuarterMillionTokensOnDevices) {
  for_each_path([&](Path& path) {
    if (path.processor) return;
    expect_flat_error(path, KvElem::bf16, KvElem::bf16, 128);
    for (const int width : {64, 128, 256}) expect_flat_error(path, KvElem::e4m3, KvElem::e4m3, width);
    expect_flat_error(path, KvElem::e5m2, KvElem::e5m2, 256);
    expect_flat_error(path, KvElem::int8, KvElem::e4m3, 128);
    expect_flat_error(path, KvElem::int8, KvElem::int8, 64);
    expect_flat_error(path, KvElem::bf16, KvElem::e4m3, 512);
  });
}

// Chunks of more rows than a tile, whose first rows see whole pages, beside decodes of many splits: windows end within
// tiles and begin pages later, groups do not divide tiles. The fast paths of a processor, whose tiles know no widths,
// take the narrowest heads.
TEST(Attention, LongChunksBesideLongDecodes) {
  int i = 0;
  for (const int width : {64, 128, 256})
    for (const KvElem elem : {KvElem::bf16, KvElem::e4m3})
      for (const int window : {0, 130, 700}) {
        ++i;
        Case c{.key = elem, .value = elem, .rotation = is_8bit(elem), .width = width, .value_width = width};
        c.kv_heads = 1 + i % 2;
        c.group = std::array{4, 1, 6, 3, 8, 12}[static_cast<std::size_t>(i) % 6];
        c.page_size = 64;
        c.compute = DType::bf16;
        c.window = window;
        c.sinks = i % 3 == 0;
        c.sequences = {{2500, 1}, {129, 1}, {64, 1}, {1025, 170}, {300, 40}, {257, 257}, {191, 2}};
        const Numbers n = make_numbers(c, 3);
        std::vector<double> want;
        for_each_path([&](Path& path) {
          if (path.processor && (path.plain || path.deterministic || width != 64 || window != 130)) return;
          if (want.empty()) want = reference(c, n);
          expect_attention(path, c, n, want, is_8bit(elem) ? 6e-2 : 1e-2);
        });
      }
}

// Few tiles of rows over long contexts, whose pages several blocks share: windows that leave some of them out, sinks,
// rows that end within a tile, tiles of another sequence that are too short to be shared.
TEST(Attention, ChunksOverLongContextsOnDevices) {
  int i = 0;
  for (const auto& [key, value] : {std::pair{KvElem::bf16, KvElem::bf16}, std::pair{KvElem::e4m3, KvElem::e4m3},
                                   std::pair{KvElem::int8, KvElem::e4m3}})
    for (const int width : {64, 128, 256}) {
      ++i;
      Case c{.key = key, .value = value, .rotation = is_8bit(key), .width = width, .value_width = width};
      c.kv_heads = 1 + i % 2;
      c.group = std::array{4, 1, 3, 7}[static_cast<std::size_t>(i) % 4];
      c.page_size = 64;
      c.compute = DType::bf16;
      c.window = i % 2 * 3000;
      c.sinks = i % 3 == 0;
      c.sequences = {{700, 1}, {4400, 30}, {5, 5}, {4097, 2}};
      const Numbers n = make_numbers(c, 4);
      std::vector<double> want;
      for_each_path([&](Path& path) {
        if (path.processor) return;
        if (want.empty()) want = reference(c, n);
        expect_attention(path, c, n, want, is_8bit(key) ? 6e-2 : 1e-2);
      });
    }
}

}  // namespace
}  // namespace octavo::conformance
