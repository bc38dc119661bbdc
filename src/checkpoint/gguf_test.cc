#include "checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <random>

#include "checkpoint/test_files.h"

namespace octavo {
namespace {

using namespace octavo::testing;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kArray = 9;

GgufParts small_parts() {
  GgufParts parts;
  parts.keys = {key_string("general.architecture", "house"), key_u32("house.block_count", 2),
                key_record("tokens", kArray,
                           raw<std::uint32_t>(8) + raw<std::uint64_t>(2) + gguf_string("a") + gguf_string("bc")),
                key_record("scores", kArray, raw<std::uint32_t>(6) + raw<std::uint64_t>(2) + raw(0.5f) + raw(1.5f))};
  parts.tensors = {tensor_record("a", {3}, kF32, 0), tensor_record("b", {32, 2}, 8, 32)};
  parts.data = raw(1.0f) + raw(2.0f) + raw(3.0f) + std::string(20, '\0') + std::string(68, '\7');
  return parts;
}

std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
  return hash;
}

// tests/fixtures/checkpoint/make_tiny_gguf.py made the file with the gguf package; shapes and hashes are its reader's.
TEST(Gguf, ReadsWhatTheGgufPackageWrote) {
  const auto file = GgufFile::open(OCTAVO_SOURCE_DIR "/tests/fixtures/checkpoint/tiny.gguf");
  ASSERT_TRUE(file) << message_of(file);
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(**file->find_string("general.architecture"), "house");
  const std::map<std::string, std::int64_t> wholes = {
      {"general.alignment", 64}, {"k.u8", 200},        {"k.i8", -100},
      {"k.u16", 60000},          {"k.i16", -30000},    {"k.u32", 4000000000},
      {"k.i32", -2000000000},    {"k.u64", 1ll << 62}, {"k.i64", -(1ll << 62)}};
  for (const auto& [key, value] : wholes) EXPECT_EQ(**file->find_int(key), value) << key;
  EXPECT_EQ(**file->find_number("k.f32"), 0.5);
  EXPECT_EQ(**file->find_number("k.f64"), 1e300);
  EXPECT_EQ(**file->find_number("k.u8"), 200.0);
  EXPECT_EQ(**file->find_bool("k.bool"), true);
  EXPECT_EQ(**file->find_string("k.string"),
            "gr\xC3\xB6\xC3\x9F"
            "e");
  EXPECT_EQ(*file->find_strings("k.strings"), (std::vector<std::string>{"a", "", "\xC4\x87"}));
  EXPECT_EQ(*file->find_ints("k.ints"), (std::vector<std::int64_t>{3, -1, 2}));
  EXPECT_EQ(*file->find_numbers("k.floats"), (std::vector<double>{0.25, -2.0}));
  EXPECT_EQ(*file->find_ints("k.bools"), (std::vector<std::int64_t>{1, 0}));

  const std::vector<std::pair<std::string, std::uint64_t>> expected = {
      {"t.f32 f32 [2, 64]", 0xb14d8ee6e04850c1u},   {"t.f16 f16 [2, 64]", 0x94c6d88ebb3edc9du},
      {"t.bf16 bf16 [2, 64]", 0x1909418d6d6f2365u}, {"t.q4_0 q4_0 [2, 64]", 0x66d09838cab121a5u},
      {"t.q4_1 q4_1 [2, 64]", 0xd1965bededf6f52cu}, {"t.q8_0 q8_0 [2, 64]", 0xb84baf941ad66585u},
      {"t.i32 i32 [1, 2, 3]", 0xac6313d97a44af34u}};
  ASSERT_EQ(file->tensors().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(file->tensors()[i].describe(), expected[i].first);
    EXPECT_EQ(fnv1a(file->tensors()[i].bytes), expected[i].second) << expected[i].first;
  }
}

TEST(Gguf, TypedReads) {
  const TemporaryDirectory directory;
  const auto file = GgufFile::open(directory.write("x.gguf", small_parts().bytes()));
  ASSERT_TRUE(file) << message_of(file);
  EXPECT_EQ(file->tensors()[1].describe(), "b q8_0 [2, 32]");
  EXPECT_EQ(*read_floats(file->tensors()[0]), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(*file->find_int("absent"), std::nullopt);
  EXPECT_EQ(file->find_strings("absent"), nullptr);
  EXPECT_EQ(file->find_strings("scores"), nullptr);
  EXPECT_NE(message_of(file->find_int("general.architecture")).find("\"general.architecture\" must be a whole number"),
            std::string::npos);
  EXPECT_FALSE(file->find_string("house.block_count"));
  EXPECT_FALSE(file->find_bool("house.block_count"));
  EXPECT_FALSE(file->find_number("tokens"));
}

TEST(Gguf, Version2AndOtherAlignments) {
  const TemporaryDirectory directory;
  GgufParts parts = small_parts();
  parts.version = 2;
  EXPECT_TRUE(GgufFile::open(directory.write("x.gguf", parts.bytes())));
  for (const std::uint32_t alignment : {1u, 8u, 4096u}) {
    GgufParts other = small_parts();
    other.alignment = alignment;
    other.keys.push_back(key_u32("general.alignment", alignment));
    other.tensors = {tensor_record("a", {3}, kF32, 0)};
    const auto file = GgufFile::open(directory.write("x.gguf", other.bytes()));
    ASSERT_TRUE(file) << message_of(file);
    EXPECT_EQ(*read_floats(file->tensors()[0]), (std::vector<float>{1, 2, 3}));
  }
  GgufParts empty;
  empty.alignment = 0;
  EXPECT_TRUE(GgufFile::open(directory.write("x.gguf", empty.bytes()))) << "a vocabulary alone has no data section";
}

struct BadCase {
  std::string expected;
  std::function<void(GgufParts&)> change;
};

void refuses(const std::vector<BadCase>& cases) {
  const TemporaryDirectory directory;
  for (const BadCase& bad : cases) {
    GgufParts parts = small_parts();
    bad.change(parts);
    const auto file = GgufFile::open(directory.write("bad.gguf", parts.bytes()));
    ASSERT_FALSE(file) << bad.expected;
    EXPECT_NE(file.error().message().find(bad.expected), std::string::npos) << file.error().message();
    EXPECT_NE(file.error().message().find("bad.gguf"), std::string::npos) << file.error().message();
  }
}

TEST(Gguf, RefusesBadHeaders) {
  refuses({{"version 1 is not", [](GgufParts& p) { p.version = 1; }},
           {"version 4 is not", [](GgufParts& p) { p.version = 4; }},
           {"big-endian", [](GgufParts& p) { p.version = 0x03000000; }},
           {"tensors, more than its", [](GgufParts& p) { p.num_tensors_off = 1ull << 60; }},
           {"keys, more than its", [](GgufParts& p) { p.num_keys_off = 1ull << 60; }},
           {"keys, more than its",
            [](GgufParts& p) {
              p.num_keys_off = ~0ull;
              p.keys.clear();
            }},
           {"", [](GgufParts& p) { p.num_keys_off = 1; }},
           {"", [](GgufParts& p) { p.num_tensors_off = 1; }}});
  const TemporaryDirectory directory;
  EXPECT_NE(message_of(GgufFile::open(directory.write("x", "GGML" + std::string(40, '\0')))).find("not a GGUF file"),
            std::string::npos);
  EXPECT_FALSE(GgufFile::open(directory.write("x", "")));
}

TEST(Gguf, RefusesBadKeys) {
  const auto with = [](const std::string& record) { return [record](GgufParts& p) { p.keys.push_back(record); }; };
  const auto array = [](std::uint32_t type, std::uint64_t count, const std::string& elements) {
    return key_record("list", kArray, raw(type) + raw(count) + elements);
  };
  refuses({{"key \"house.block_count\" appears twice", with(key_u32("house.block_count", 3))},
           {"key \"k\": value type 13", with(key_record("k", 13, "12345678"))},
           {"key \"k\": value type 4294967295", with(key_record("k", ~0u, "12345678"))},
           {"key \"k\": a truth value is 2", with(key_record("k", 7, "\2"))},
           {"key \"k\": 9223372036854775808 is above 2^63 - 1", with(key_record("k", 10, raw(1ull << 63)))},
           {"key \"k\": 1152921504606846976 bytes are needed", with(key_record("k", 8, raw(1ull << 60)))},
           {"name of key 4: 18446744073709551615 bytes", with(raw(~0ull) + raw(4u) + raw(1u))},
           {"key \"list\": arrays of arrays", with(array(9, 1, raw(0u) + raw<std::uint64_t>(0)))},
           {"key \"list\": element type 99", with(array(99, 1, "1"))},
           {"key \"list\": an array claims 1152921504606846976", with(array(4, 1ull << 60, "1234"))},
           {"key \"list\": an array claims 18446744073709551615", with(array(0, ~0ull, "1"))},
           {"key \"list\": an array claims 100000", with(array(8, 100000, "1"))},
           {"key \"list\": element 1: 255 bytes", with(array(8, 2, gguf_string("a") + raw<std::uint64_t>(255)))},
           {"\"general.alignment\" must be a whole number", with(key_string("general.alignment", "32"))},
           {"\"general.alignment\" is 0", with(key_u32("general.alignment", 0))},
           {"\"general.alignment\" is 24", with(key_u32("general.alignment", 24))},
           {"\"general.alignment\" is 2147483648", with(key_u32("general.alignment", 1u << 31))}});
}

TEST(Gguf, RefusesBadTensors) {
  const auto with = [](const std::string& record) { return [record](GgufParts& p) { p.tensors.push_back(record); }; };
  const auto dims9 = std::vector<std::uint64_t>(9, 1);
  refuses(
      {{"tensor \"a\" appears twice", with(tensor_record("a", {3}, kF32, 128))},
       {"tensor \"c\": it has 9 dimensions", with(tensor_record("c", dims9, kF32, 0))},
       {"tensor \"c\": it has 0 dimensions", with(tensor_record("c", {}, kF32, 0))},
       {"tensor \"c\": one of its dimensions is 0", with(tensor_record("c", {4, 0}, kF32, 0))},
       {"tensor \"c\": one of its dimensions is 9223372036854775808", with(tensor_record("c", {1ull << 63}, kF32, 0))},
       {"tensor \"c\": its shape [4294967296, 4294967296] is too large",
        with(tensor_record("c", {1ull << 32, 1ull << 32}, kF32, 0))},
       {"tensor \"c\": its shape [8, 2305843009213693952] is too large",
        with(tensor_record("c", {1ull << 61, 8}, kF32, 0))},
       {"tensor \"c\": its GGML type Q3_K is not supported", with(tensor_record("c", {256}, 11, 0))},
       {"tensor \"c\": its GGML type IQ4_XS", with(tensor_record("c", {256}, 23, 0))},
       {"tensor \"c\": its GGML type 4000000000 is", with(tensor_record("c", {256}, 4000000000u, 0))},
       {"tensor \"c\": its rows in shape [33] are not whole blocks of 32", with(tensor_record("c", {33}, 2, 0))},
       {"tensor \"c\": its rows in shape [2, 288] are not whole blocks of 256 numbers of q4_k",
        with(tensor_record("c", {288, 2}, 12, 0))},
       {"tensor \"c\": 210 bytes at offset 128 go beyond the 100 bytes", with(tensor_record("c", {256}, 14, 128))},
       {"tensor \"c\": its offset 4 is no multiple", with(tensor_record("c", {1}, kF32, 4))},
       {"tensor \"c\": 4 bytes at offset 18446744073709551584 go beyond",
        with(tensor_record("c", {1}, kF32, ~0ull - 31))},
       {"tensor \"c\": 4 bytes at offset 128 go beyond the 100 bytes", with(tensor_record("c", {1}, kF32, 128))},
       {"tensor \"c\": 404 bytes at offset 0", with(tensor_record("c", {101}, kF32, 0))},
       {"tensors \"b\" and \"c\" overlap", with(tensor_record("c", {1}, kF32, 64))},
       {"name of tensor 2: 1152921504606846976 bytes", with(raw(1ull << 60) + std::string(40, '\0'))}});
}

Result<GgufFile> parse_gguf(const std::string& text) {
  const ExactBytes exact(text);
  return GgufFile::parse(exact.bytes, exact.data, "memory");
}

// In a large file a damaged length may lie inside it; a sparse file shows that nothing of that size is allocated.
TEST(Gguf, RefusesHugeStringsInsideTheFile) {
  const TemporaryDirectory directory;
  GgufParts parts;
  parts.keys = {gguf_string("k") + raw(8u) + raw(std::uint64_t{1} << 33)};
  const std::string path = directory.write("x.gguf", parts.bytes());
  std::filesystem::resize_file(path, std::uint64_t{1} << 34);
  EXPECT_NE(message_of(GgufFile::open(path)).find("key \"k\": a string claims 8589934592 bytes"), std::string::npos);
}

TEST(Gguf, RefusesEveryTruncation) {
  const std::string whole = small_parts().bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parse_gguf(whole.substr(0, size))) << size;
}

TEST(Gguf, SurvivesRandomDamage) {
  const std::string whole = small_parts().bytes();
  std::mt19937 random(2);
  int accepted = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string damaged = whole;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto file = parse_gguf(damaged);
    if (!file) continue;
    ++accepted;
    for (const StoredTensor& tensor : file->tensors()) fnv1a(tensor.bytes);
  }
  EXPECT_GT(accepted, 100) << "damage to names and data is not damage to the container";
}

}  // namespace
}  // namespace octavo
