#include "tensor/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace octavo {
namespace {

const std::string kFixtures = OCTAVO_SOURCE_DIR "/tests/fixtures/unit/";

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// The tensors of casts.safetensors as raw bytes.
std::map<std::string, std::string> read_casts() {
  const std::string file = read_file(kFixtures + "casts.safetensors").value();
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  std::map<std::string, std::string> tensors;
  const Json header = parse_json(file.substr(8, header_bytes), "casts.safetensors").value();
  for (const auto& [name, entry] : header.items()) {
    const std::size_t begin = entry.at("data_offsets").at(0);
    const std::size_t end = entry.at("data_offsets").at(1);
    tensors[name] = file.substr(8 + header_bytes + begin, end - begin);
  }
  return tensors;
}

template <class T>
std::vector<T> numbers(const std::string& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

// Tables of the package ml_dtypes (make_bf16_casts.py): codes of all bf16 inputs, values of all codes.
struct Tables {
  std::map<std::string, std::vector<std::uint16_t>> casts;
  std::map<std::string, std::vector<std::uint32_t>> values;
};

Tables read_tables() {
  Tables tables;
  std::ifstream file(kFixtures + "bf16_casts.txt");
  std::string line, sort, name;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    if (line.starts_with("cast") || line.starts_with("values")) {
      words >> sort >> name;
      continue;
    }
    std::uint32_t number = 0;
    std::size_t count = 1;
    words >> std::hex >> number >> std::dec;
    if (sort == "values") {
      tables.values[name].push_back(number);
    } else {
      words >> count;
      tables.casts[name].insert(tables.casts[name].end(), count, static_cast<std::uint16_t>(number));
    }
  }
  return tables;
}

TEST(Float8, MatchesPublishedCasts) {
  const auto casts = read_casts();
  const auto inputs = numbers<float>(casts.at("e4m3.input"));
  const auto codes = numbers<std::uint8_t>(casts.at("e4m3.bits"));
  ASSERT_EQ(inputs.size(), 3323u);
  for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(e4m3_from_f32(inputs[i]), codes[i]) << inputs[i];

  const auto values = numbers<float>(casts.at("e4m3.value_of_bits"));
  for (int code = 0; code < 256; ++code) {
    const float value = f32_from_e4m3(static_cast<std::uint8_t>(code));
    const float expected = values[static_cast<std::size_t>(code)];
    const bool is_nan = (code & 0x7F) == 0x7F;  // the file says 0 for these two
    EXPECT_TRUE(is_nan ? std::isnan(value) : bits_of(value) == bits_of(expected)) << code;
  }

  const auto bf16_inputs = numbers<float>(casts.at("bf16.input"));
  const auto bf16_bits = numbers<std::uint16_t>(casts.at("bf16.bits"));
  for (std::size_t i = 0; i < bf16_inputs.size(); ++i)
    EXPECT_EQ(bf16_from_f32(bf16_inputs[i]), bf16_bits[i]) << bf16_inputs[i];
}

TEST(Float8, MatchesMlDtypesOnEveryBf16) {
  const Tables tables = read_tables();
  for (const char* name : {"e4m3", "e5m2", "f16"}) ASSERT_EQ(tables.casts.at(name).size(), 65536u) << name;
  for (std::uint32_t input = 0; input < 65536; ++input) {
    const float x = f32_from_bf16(static_cast<std::uint16_t>(input));
    ASSERT_EQ(e4m3_from_f32(x), tables.casts.at("e4m3")[input]) << std::hex << input;
    ASSERT_EQ(e5m2_from_f32(x), tables.casts.at("e5m2")[input]) << std::hex << input;
    ASSERT_EQ(f16_from_f32(x), tables.casts.at("f16")[input]) << std::hex << input;
    ASSERT_TRUE(std::isnan(x) || bf16_from_f32(x) == input) << std::hex << input;
  }
}

TEST(Float8, MatchesMlDtypesOnEveryCode) {
  const Tables tables = read_tables();
  for (std::uint32_t i = 0; i < 256; ++i) {
    const auto code = static_cast<std::uint8_t>(i);
    const auto same = [](float value, std::uint32_t expected) {
      return std::isnan(value) ? std::isnan(std::bit_cast<float>(expected)) : bits_of(value) == expected;
    };
    EXPECT_TRUE(same(f32_from_e4m3(code), tables.values.at("e4m3")[i])) << i;
    EXPECT_TRUE(same(f32_from_e5m2(code), tables.values.at("e5m2")[i])) << i;
    EXPECT_TRUE(same(f32_from_e8m0(code), tables.values.at("e8m0")[i])) << i;
  }
}

// One bit of sign, two of exponent with bias 1, one of mantissa.
TEST(Float8, EveryE2m1HasTheValueOfItsDefinition) {
  for (int code = 0; code < 16; ++code) {
    const int exponent = code >> 1 & 3;
    const double fraction = (code & 1) / 2.0;
    const double magnitude = exponent == 0 ? fraction : std::ldexp(1 + fraction, exponent - 1);
    EXPECT_EQ(f32_from_e2m1(static_cast<std::uint8_t>(code)), (code & 8) != 0 ? -magnitude : magnitude) << code;
  }
}

// The value of an f16 by its definition.
double f16_value(std::uint32_t code) {
  const int exponent = static_cast<int>(code >> 10 & 31);
  const double fraction = code & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (code & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Float8, EveryF16HasTheValueOfItsDefinition) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const float value = f32_from_f16(static_cast<std::uint16_t>(code));
    if ((code & 0x7C00) != 0x7C00) {
      ASSERT_EQ(static_cast<double>(value), f16_value(code)) << code;
      ASSERT_EQ(std::signbit(value), (code & 0x8000) != 0);
      ASSERT_EQ(f16_from_f32(value), code);
    } else {
      ASSERT_EQ(std::isnan(value), (code & 1023) != 0);
      ASSERT_EQ(std::isinf(value), (code & 1023) == 0);
    }
  }
}

// Between neighbouring codes c and c + 1 the tie goes to the even one, and the numbers beside the tie to the nearer
// one.
template <class Encode, class Decode>
void check_ties(std::uint32_t largest, Encode encode, Decode decode) {
  const std::uint32_t infinity_bits = bits_of(std::numeric_limits<float>::infinity());
  for (std::uint32_t code = 0; code < largest; ++code) {
    const double below = decode(code);
    const double above = decode(code + 1);
    const auto tie = static_cast<float>((below + above) / 2);
    ASSERT_EQ(static_cast<double>(tie), (below + above) / 2) << "a tie is a float";
    for (const bool negative : {false, true}) {
      const auto signed_code = [&](float x) { return encode(negative ? -x : x); };
      const std::uint32_t sign = negative ? encode(-0.0f) : 0u;
      EXPECT_EQ(signed_code(tie), sign | (code + (code & 1))) << code;
      EXPECT_EQ(signed_code(std::nextafterf(tie, 0.0f)), sign | code) << code;
      EXPECT_EQ(signed_code(std::nextafterf(tie, std::bit_cast<float>(infinity_bits))), sign | (code + 1)) << code;
    }
  }
}

TEST(Float8, TiesGoToEven) {
  const auto as_byte = [](std::uint32_t code) { return static_cast<std::uint8_t>(code); };
  check_ties(
      0x7E, [](float x) { return std::uint32_t{e4m3_from_f32(x)}; },
      [&](std::uint32_t code) { return double{f32_from_e4m3(as_byte(code))}; });
  check_ties(
      0x7B, [](float x) { return std::uint32_t{e5m2_from_f32(x)}; },
      [&](std::uint32_t code) { return double{f32_from_e5m2(as_byte(code))}; });
  check_ties(
      0x7BFF, [](float x) { return std::uint32_t{f16_from_f32(x)}; },
      [](std::uint32_t code) { return f16_value(code); });
  check_ties(
      0x7F7F, [](float x) { return std::uint32_t{bf16_from_f32(x)}; },
      [](std::uint32_t code) { return double{f32_from_bf16(static_cast<std::uint16_t>(code))}; });
}

TEST(Float8, EdgesSaturate) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {448.0f, 449.0f, 464.0f, 465.0f, 1e30f, infinity}) {
    EXPECT_EQ(e4m3_from_f32(x), 0x7E) << x;
    EXPECT_EQ(e4m3_from_f32(-x), 0xFE) << x;
  }
  for (const float x : {57344.0f, 61440.0f, 61441.0f, 1e30f, infinity}) {
    EXPECT_EQ(e5m2_from_f32(x), 0x7B) << x;
    EXPECT_EQ(e5m2_from_f32(-x), 0xFB) << x;
  }
  for (const std::uint32_t nan : {0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
    const float x = std::bit_cast<float>(nan);
    EXPECT_EQ(e4m3_from_f32(x), 0x7F);
    EXPECT_EQ(e5m2_from_f32(x), 0x7F);
    EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(x))));
    EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_ceil_from_f32(x))));
    EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(x))));
  }
}

TEST(Float8, Bf16CeilIsTheSmallestNotBelow) {
  for (std::uint32_t code = 0; code < 0x7F80; ++code) {
    const float value = f32_from_bf16(static_cast<std::uint16_t>(code));
    ASSERT_EQ(bf16_ceil_from_f32(value), code);
    ASSERT_EQ(bf16_ceil_from_f32(std::bit_cast<float>(bits_of(value) + 1)), code + 1);
    ASSERT_EQ(bf16_ceil_from_f32(std::bit_cast<float>(bits_of(value) + 0xFFFF)), code + 1);
  }
}

static_assert(f32_from_e4m3(e4m3_from_f32(0.3f)) == 0.3125f);
static_assert(e5m2_from_f32(1e9f) == 0x7B);

}  // namespace
}  // namespace octavo
