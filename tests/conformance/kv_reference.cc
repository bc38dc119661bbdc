#include "tests/conformance/kv_reference.h"

#include <algorithm>
#include <cmath>

namespace octavo::conformance {

namespace {

// All finite magnitudes of a format with one sign bit, by code: exponent and mantissa bits, bias.
std::vector<double> magnitudes(int mantissa_bits, int bias, int num_codes) {
  std::vector<double> values;
  for (int code = 0; code < num_codes; ++code) {
    const int exponent = code >> mantissa_bits;
    const double fraction = static_cast<double>(code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits);
    values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias));
  }
  return values;
}

// The code nearest to |x|, ties to the even code; beyond the table its last.
int nearest_code(const std::vector<double>& table, double x) {
  const auto above = std::lower_bound(table.begin(), table.end(), x);
  if (above == table.end()) return static_cast<int>(table.size()) - 1;
  const int code = static_cast<int>(above - table.begin());
  if (code == 0) return 0;
  const double up = table[static_cast<std::size_t>(code)] - x;
  const double down = x - table[static_cast<std::size_t>(code - 1)];
  return up < down || (up == down && code % 2 == 0) ? code : code - 1;
}

float bf16_nearest(float x) {
  if (x == 0.0f) return x;
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(x), &exponent);
  const int bits = std::min(8, exponent + 133);  // fewer below the smallest normal number
  return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits));
}

float bf16_not_below(float x) {
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(x), &exponent);
  return static_cast<float>(std::ldexp(std::ceil(std::ldexp(fraction, 8)), exponent - 8));
}

void cache_int8(std::span<const float> row, ReferenceRow& result) {
  float amax = 0.0f;
  for (const float x : row) amax = std::max(amax, std::fabs(x));
  result.scale = bf16_not_below(amax / 127.0f);
  for (const float x : row) {
    const float inverse = 1.0f / result.scale;
    const double code = amax == 0.0f ? 0.0 : std::nearbyint(static_cast<double>(x * inverse));
    result.codes.push_back(static_cast<int>(code) & 255);
    result.values.push_back(code * result.scale);
  }
}

void cache_float8(KvElem elem, std::span<const float> row, ReferenceRow& result) {
  static const std::vector<double> kE4m3 = magnitudes(3, 7, 0x7F);
  static const std::vector<double> kE5m2 = magnitudes(2, 15, 0x7C);
  const std::vector<double>& table = elem == KvElem::e4m3 ? kE4m3 : kE5m2;
  for (const float x : row) {
    const double quotient = x / result.scale;
    const int code = nearest_code(table, std::fabs(quotient));
    result.codes.push_back(code | (std::signbit(quotient) ? 0x80 : 0));
    result.values.push_back(std::copysign(table[static_cast<std::size_t>(code)], quotient) * result.scale);
    result.saturated += std::fabs(quotient) > table.back() ? 1 : 0;
  }
}

// Each 128 numbers under a scale of their own: the largest magnitude becomes the largest code.
void cache_blocks(KvElem elem, std::span<const float> row, ReferenceRow& result) {
  for (std::size_t begin = 0; begin < row.size(); begin += 128) {
    const auto block = row.subspan(begin, std::min<std::size_t>(128, row.size() - begin));
    float amax = 0.0f;
    for (const float x : block) amax = std::max(amax, std::fabs(x));
    result.scale = amax / (elem == KvElem::e4m3 ? 448.0f : 57344.0f);
    cache_float8(elem, block, result);
  }
}

}  // namespace

std::vector<double> rotated(std::span<const double> row) {
  const std::size_t block = row.size() & (~row.size() + 1);
  std::vector<double> result(row.begin(), row.end());
  // Sylvester's matrix of 2n is that of n, four times, the last one negative: each stage joins two transforms of n.
  for (std::size_t n = 1; n < block; n *= 2)
    for (std::size_t i = 0; i < result.size(); ++i) {
      if ((i % block & n) != 0) continue;
      const double first = result[i];
      result[i] = first + result[i + n];
      result[i + n] = first - result[i + n];
    }
  for (double& x : result) x /= std::sqrt(static_cast<double>(block));
  return result;
}

ReferenceRow cached(const KvSegment& segment, float given_scale, std::span<const float> row) {
  ReferenceRow result;
  switch (segment.elem) {
    case KvElem::f32:
      result.values.assign(row.begin(), row.end());
      break;
    case KvElem::bf16:
      for (const float x : row) result.values.push_back(bf16_nearest(x));
      break;
    case KvElem::int8:
      cache_int8(row, result);
      break;
    case KvElem::e4m3:
    case KvElem::e5m2:
      if (segment.grain == KvGrain::token_block) {
        cache_blocks(segment.elem, row, result);
        break;
      }
      if (segment.grain != KvGrain::none) result.scale = given_scale;
      cache_float8(segment.elem, row, result);
      break;
  }
  return result;
}

}  // namespace octavo::conformance
