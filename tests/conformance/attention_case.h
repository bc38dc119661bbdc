// A case of attention: its shape, numbers that every path gets, the result worked out in double, and the way through
// kv_write and attention on one path. Slots that hold no visible token are poison.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/cache.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {

struct Sequence {
  std::int32_t context = 0;
  std::int32_t length = 1;  // query rows, the last of the context
};

struct Case {
  KvElem key = KvElem::bf16;
  KvElem value = KvElem::bf16;
  bool rotation = false;
  bool per_head = true;
  int width = 64;
  int value_width = 64;
  int kv_heads = 2;
  int group = 2;
  int page_size = 16;
  int window = 0;
  float soft_cap = 0.0f;
  bool sinks = false;
  DType compute = DType::f32;
  std::vector<Sequence> sequences = {};
};

std::string describe(const Case& c);

// The pairs of kinds that every wing serves.
inline const std::pair<KvElem, KvElem> kCommonPairs[] = {{KvElem::bf16, KvElem::bf16}, {KvElem::bf16, KvElem::e4m3},
                                                         {KvElem::e4m3, KvElem::e4m3}, {KvElem::e5m2, KvElem::e5m2},
                                                         {KvElem::int8, KvElem::e4m3}, {KvElem::int8, KvElem::int8}};

KvGrain grain_of(KvElem elem, bool per_head);

// The numbers of a case, the same for every path.
struct Numbers {
  KvFormat format;
  std::vector<float> key_scales, value_scales;  // far from 1, K and V apart, by head where the grain allows
  std::vector<std::vector<float>> keys, values,
      queries;  // by sequence: [context, heads, width], [length, q_heads, width]
  std::vector<float> sinks;
  float scale = 0.0f;
};

Numbers make_numbers(const Case& c, std::uint64_t seed);

// Rows of a cache as attention must see them, in the basis of the queries; scales by head.
std::vector<std::vector<double>> seen_rows(const KvSegment& segment, const std::vector<float>& scales,
                                           const std::vector<float>& numbers);

std::vector<double> reference(const Case& c, const Numbers& n);

// Queries as a wing that computes in bfloat16 has them, in the cache's basis; those of chunks also as products in 8 bits
// take them: over keys in e4m3 each row rounded to e4m3, times a power of two; over int8 its largest number is 127.
Numbers with_rounded_queries(const Case& c, Numbers n);
std::vector<float> attention_on(Path& path, const Case& c, const Numbers& n);

// Expects attention_on() to be `want` up to the bound. Where the path's table has a row with products in 8 bits for the
// case's chunks, its results are held to a reference over rounded queries: decodes to nearly bfloat16's rounding, chunks
// up to that of probabilities.
void expect_attention(Path& path, const Case& c, const Numbers& n, const std::vector<double>& want, double bound);

}  // namespace octavo::conformance
