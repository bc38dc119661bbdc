#include "checkpoint/gguf_reader.h"

#include <array>
#include <utility>

namespace octavo {
namespace {

// GGUF's numbers for the types of metadata values.
enum ValueType : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
constexpr std::array<std::uint64_t, 13> kLeastBytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

// All arrays of a file together; real vocabularies with merges stay below 2 million.
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 26;

// In a file of many gigabytes a damaged length could still lie inside the file.
constexpr std::uint64_t kMaxStringBytes = std::uint64_t{1} << 26;

bool is_float(std::uint32_t type) { return type == kF32 || type == kF64; }

}  // namespace

GgmlType ggml_type(std::uint32_t number) {
  switch (number) {
    case 0:
      return {"F32", DType::f32, true};
    case 1:
      return {"F16", DType::f16, true};
    case 2:
      return {"Q4_0", DType::q4_0, true};
    case 3:
      return {"Q4_1", DType::q4_1, true};
    case 6:
      return {"Q5_0", DType::q5_0, true};
    case 7:
      return {"Q5_1", DType::q5_1, true};
    case 8:
      return {"Q8_0", DType::q8_0, true};
    case 12:
      return {"Q4_K", DType::q4_k, true};
    case 13:
      return {"Q5_K", DType::q5_k, true};
    case 14:
      return {"Q6_K", DType::q6_k, true};
    case 39:
      return {"MXFP4", DType::mxfp4, true};
    case 24:
      return {"I8", DType::i8, true};
    case 25:
      return {"I16", DType::i16, true};
    case 26:
      return {"I32", DType::i32, true};
    case 27:
      return {"I64", DType::i64, true};
    case 28:
      return {"F64", DType::f64, true};
    case 30:
      return {"BF16", DType::bf16, true};
    default:
      break;
  }
  constexpr std::pair<std::uint32_t, const char*> kOthers[] = {
      {4, "Q4_2"},     {5, "Q4_3"},    {9, "Q8_1"},        {10, "Q2_K"},       {11, "Q3_K"},      {15, "Q8_K"},
      {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},    {19, "IQ1_S"},      {20, "IQ4_NL"},    {21, "IQ3_S"},
      {22, "IQ2_S"},   {23, "IQ4_XS"}, {29, "IQ1_M"},      {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},  {33, "Q4_0_8_8"},
      {34, "TQ1_0"},   {35, "TQ2_0"},  {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}};
  for (const auto& [other, name] : kOthers)
    if (other == number) return {name, DType::f32, false};
  return {std::to_string(number), DType::f32, false};
}

Error GgufReader::truncated(std::uint64_t needed) const {
  return Error(std::to_string(needed) + " bytes are needed at byte " + std::to_string(position_) + ", but only " +
               std::to_string(left()) + " are left; the file is truncated or damaged");
}

Result<std::string> GgufReader::string() {
  OCTAVO_TRY(const auto length, number<std::uint64_t>());
  if (length > left()) return truncated(length);
  if (length > kMaxStringBytes)
    return Error("a string claims " + std::to_string(length) + " bytes; the file is damaged");
  std::string text(reinterpret_cast<const char*>(bytes_.data() + position_), length);
  position_ += length;
  return text;
}

Result<std::int64_t> GgufReader::integer(std::uint32_t type) {
  const auto widened = [](auto read) -> Result<std::int64_t> {
    if (!read) return std::move(read).error();
    return static_cast<std::int64_t>(*read);
  };
  switch (type) {
    case kU8:
      return widened(number<std::uint8_t>());
    case kI8:
      return widened(number<std::int8_t>());
    case kU16:
      return widened(number<std::uint16_t>());
    case kI16:
      return widened(number<std::int16_t>());
    case kU32:
      return widened(number<std::uint32_t>());
    case kI32:
      return widened(number<std::int32_t>());
    case kI64:
      return number<std::int64_t>();
    case kBool:
      return widened(boolean());
    default:
      break;
  }
  OCTAVO_TRY(const auto value, number<std::uint64_t>());
  if (value > static_cast<std::uint64_t>(INT64_MAX)) return Error(std::to_string(value) + " is above 2^63 - 1");
  return static_cast<std::int64_t>(value);
}

Result<bool> GgufReader::boolean() {
  OCTAVO_TRY(const auto byte, number<std::uint8_t>());
  if (byte > 1) return Error("a truth value is " + std::to_string(byte) + ", must be 0 or 1");
  return byte == 1;
}

Result<GgufValue> GgufReader::value(std::uint32_t type) {
  if (type >= kLeastBytes.size()) return Error("value type " + std::to_string(type) + " does not exist");
  if (type == kArray) return array();
  if (type == kString) {
    OCTAVO_TRY(std::string text, string());
    return GgufValue(std::move(text));
  }
  if (type == kBool) {
    OCTAVO_TRY(const bool truth, boolean());
    return GgufValue(truth);
  }
  if (type == kF32) {
    OCTAVO_TRY(const float real, number<float>());
    return GgufValue(static_cast<double>(real));
  }
  if (type == kF64) {
    OCTAVO_TRY(const double real, number<double>());
    return GgufValue(real);
  }
  OCTAVO_TRY(const std::int64_t whole, integer(type));
  return GgufValue(whole);
}

Result<GgufValue> GgufReader::array() {
  OCTAVO_TRY(const auto type, number<std::uint32_t>());
  OCTAVO_TRY(const auto count, number<std::uint64_t>());
  if (type >= kLeastBytes.size()) return Error("element type " + std::to_string(type) + " does not exist");
  if (type == kArray) return Error("arrays of arrays are not supported", ErrorKind::unsupported);
  if (count > left() / kLeastBytes[type])
    return Error("an array claims " + std::to_string(count) + " elements, but only " + std::to_string(left()) +
                 " bytes are left; the file is truncated or damaged");
  elements_ += count;
  if (elements_ > kMaxElements)
    return Error("its arrays hold more than " + std::to_string(kMaxElements) + " elements", ErrorKind::unsupported);

  if (type == kString) {
    std::vector<std::string> texts;
    texts.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      OCTAVO_TRY(std::string text, string().in("element " + std::to_string(i)));
      texts.push_back(std::move(text));
    }
    return GgufValue(std::move(texts));
  }
  if (is_float(type)) {
    std::vector<double> reals(count);
    for (double& real : reals) {
      OCTAVO_TRY(const GgufValue read, value(type));
      real = std::get<double>(read);
    }
    return GgufValue(std::move(reals));
  }
  std::vector<std::int64_t> wholes(count);
  for (std::int64_t& whole : wholes) {
    OCTAVO_TRY(whole, integer(type));
  }
  return GgufValue(std::move(wholes));
}

}  // namespace octavo
