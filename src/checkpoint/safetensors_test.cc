#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/test_files.h"

namespace octavo {
namespace {

using namespace octavo::testing;

std::string text_of(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

StoredTensor stored(const std::string& name, DType dtype, std::vector<std::int64_t> shape, const std::string& data) {
  StoredTensor tensor{name, dtype, std::move(shape), {}, nullptr, "memory"};
  tensor.bytes = std::as_bytes(std::span(data));
  return tensor;
}

TEST(Safetensors, ReadsWhatTheFormatSays) {
  const TemporaryDirectory directory;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"n":{"dtype":"I64","shape":[0,4],"data_offsets":[12,12]}} )";
  const std::string path =
      directory.write("x", safetensors_bytes(header, raw(1.5f) + raw(-2.0f) + raw<std::uint32_t>(0x40003F80)));
  const auto file = read_safetensors(path);
  ASSERT_TRUE(file) << message_of(file);
  ASSERT_EQ(file->tensors.size(), 3u);
  EXPECT_EQ(file->metadata.at("format"), "pt");
  EXPECT_EQ(file->tensors[0].describe(), "a f32 [2]");
  EXPECT_EQ(file->tensors[1].describe(), "b bf16 [1, 2]");
  EXPECT_EQ(file->tensors[2].describe(), "n i64 [0, 4]");
  EXPECT_EQ(*read_floats(file->tensors[0]), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(*read_floats(file->tensors[1]), (std::vector<float>{1.0f, 2.0f}));
  EXPECT_EQ(file->tensors[1].file, path);
}

TEST(Safetensors, WritesWhatItReads) {
  const TemporaryDirectory directory;
  std::vector<StoredTensor> tensors;
  std::vector<std::string> data;
  const std::vector<DType> dtypes = {DType::f32, DType::f16, DType::bf16, DType::e4m3,   DType::e5m2, DType::e8m0,
                                     DType::f64, DType::i8,  DType::i16,  DType::i32,    DType::i64,  DType::u8,
                                     DType::u16, DType::u32, DType::u64,  DType::boolean};
  data.reserve(dtypes.size());
  for (const DType dtype : dtypes) {
    const auto bytes = static_cast<std::size_t>(3 * dtype_info(dtype).block_bytes);
    data.emplace_back(bytes, static_cast<char>(data.size() + 1));
    tensors.push_back(stored("t \"\\\n\xC3\xA9" + std::to_string(data.size()), dtype, {3, 1}, data.back()));
  }
  const std::string one = raw(7.0f);
  tensors.push_back(stored("scalar", DType::f32, {}, one));
  tensors.push_back(stored("none", DType::f32, {0}, ""));
  const std::string path = directory.path("out.safetensors");
  const auto written = write_safetensors(path, tensors, {{"made by", "a \"test\""}});
  ASSERT_TRUE(written) << message_of(written);
  const auto file = read_safetensors(path);
  ASSERT_TRUE(file) << message_of(file);
  EXPECT_EQ(file->metadata.at("made by"), "a \"test\"");
  ASSERT_EQ(file->tensors.size(), tensors.size());
  for (const StoredTensor& expected : tensors) {
    const auto found = std::find_if(file->tensors.begin(), file->tensors.end(),
                                    [&](const StoredTensor& t) { return t.name == expected.name; });
    ASSERT_NE(found, file->tensors.end()) << expected.name;
    EXPECT_EQ(found->describe(), expected.describe());
    EXPECT_EQ(text_of(found->bytes), text_of(expected.bytes));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1) << "a temporary file was left";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file->tensors[0].bytes.data()) % 8, 0u);
}

TEST(Safetensors, WriterRefuses) {
  const TemporaryDirectory directory;
  const std::string data(18, '\1');
  const auto write = [&](const std::vector<StoredTensor>& tensors) {
    return message_of(write_safetensors(directory.path("x"), tensors));
  };
  const StoredTensor good = stored("t", DType::i8, {18}, data);
  EXPECT_NE(write({good, good}).find("\"t\" would be written twice"), std::string::npos);
  EXPECT_NE(write({stored("q", DType::q4_0, {32}, data)}).find("\"q\": safetensors has no dtype for q4_0"),
            std::string::npos);
  EXPECT_NE(write({stored("s", DType::i8, {19}, data)}).find("needs 19 bytes, but 18"), std::string::npos);
  EXPECT_NE(write({stored("\xFF", DType::i8, {18}, data)}).find("UTF-8"), std::string::npos);
  EXPECT_NE(message_of(write_safetensors(directory.path("no/such/x"), {good})).find("cannot write"), std::string::npos);
  EXPECT_FALSE(file_exists(directory.path("x")));
}

TEST(Safetensors, RefusesEveryDamageByName) {
  const std::string data(16, '\0');
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const std::string f32 = "\"F32\"";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {safetensors_bytes("", data), "does not begin with '{'"},
      {safetensors_bytes("[]", data), "does not begin with '{'"},
      {safetensors_bytes("{", data), "not valid JSON"},
      {safetensors_bytes("{}", data), "16 bytes at the end belong to no tensor"},
      {safetensors_bytes("{} x", ""), "not valid JSON"},
      {safetensors_bytes("{\"\xFF\":1}", ""), "not valid JSON"},
      {raw<std::uint64_t>(~0ull) + "{}", "limit of 100 MB"},
      {raw<std::uint64_t>(1ull << 63) + "{}", "limit of 100 MB"},
      {raw<std::uint64_t>(3) + "{}", "truncated or damaged"},
      {"GGUF", "too short"},
      {safetensors_bytes(R"({"x":5})", data), "tensor \"x\": unexpected a number"},
      {safetensors_bytes(R"({"x":[]})", data), "tensor \"x\": unexpected a list"},
      {safetensors_bytes(R"({"x":null})", data), "tensor \"x\": unexpected null"},
      {safetensors_bytes(R"({"x":{}})", data), "tensor \"x\": it needs dtype"},
      {safetensors_bytes(R"({"x":{"dtype":{"a":1}}})", data), "tensor \"x\": unexpected an object"},
      {safetensors_bytes(R"({"x":{"shape":[[1]]}})", data), "tensor \"x\": unexpected a list"},
      {safetensors_bytes(R"({"__metadata__":{"a":1}})", ""), "unexpected a number"},
      {safetensors_bytes(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "\"a\" appears twice"},
      {safetensors_bytes(R"({"x":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", data), "unexpected"},
      {safetensors_bytes(entry(f32, "[4]", "[0,16]").substr(0, 60) + "}", data), "not valid JSON"},
      {safetensors_bytes(entry("\"F31\"", "[4]", "[0,16]"), data), "tensor \"x\": dtype \"F31\" is not supported"},
      {safetensors_bytes(entry("null", "[4]", "[0,16]"), data), "tensor \"x\""},
      {safetensors_bytes(entry(f32, "[-4]", "[0,16]"), data), "tensor \"x\": \"shape\" holds a negative"},
      {safetensors_bytes(entry(f32, "[4.0]", "[0,16]"), data), "tensor \"x\": \"shape\" holds no whole"},
      {safetensors_bytes(entry(f32, "[99999999999999999999]", "[0,16]"), data),
       "tensor \"x\": \"shape\" holds no whole"},
      {safetensors_bytes(entry(f32, "[9223372036854775808]", "[0,16]"), data), "above 2^63 - 1"},
      {safetensors_bytes(entry(f32, "[9223372036854775807]", "[0,16]"), data), "too large"},
      {safetensors_bytes(entry(f32, "[4294967296,4294967296]", "[0,16]"), data), "too large"},
      {safetensors_bytes(entry(f32, "[2305843009213693953,8]", "[0,32]"), data + data), "too large"},
      {safetensors_bytes(entry(f32, "[1,1,1,1,1,1,1,1,4]", "[0,16]"), data), "more than 8"},
      {safetensors_bytes(entry(f32, "[5]", "[0,16]"), data), "needs 20 bytes, but its data_offsets hold 16"},
      {safetensors_bytes(entry(f32, "[4]", "[16,0]"), data), "run backwards"},
      {safetensors_bytes(entry(f32, "[4]", "[0]"), data), "two data_offsets"},
      {safetensors_bytes(entry(f32, "[4]", "[0,8,16]"), data), "two data_offsets"},
      {safetensors_bytes(entry(f32, "[4]", "[4,20]"), data), "go beyond the 16 bytes"},
      {safetensors_bytes(entry(f32, "[4]", "[9223372036854775792,9223372036854775807]"), data), "go beyond"},
      {safetensors_bytes(entry(f32, "[3]", "[4,16]"), data), "4 bytes before tensor \"x\" belong to no tensor"},
      {safetensors_bytes(entry(f32, "[3]", "[0,12]"), data), "4 bytes at the end"},
      {safetensors_bytes(std::string(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)") +
                             R"("y":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                         data),
       "tensors \"x\" and \"y\" overlap"},
      {safetensors_bytes(std::string(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)") +
                             R"("x":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                         data),
       "tensor \"x\": the name appears twice"},
      {safetensors_bytes("{" + std::string(200000, ' ') + "\"a\":" + std::string(100000, '['), ""),
       "unexpected a list"},
  };
  const TemporaryDirectory directory;
  for (const auto& [bytes, expected] : cases) {
    const auto file = read_safetensors(directory.write("bad.safetensors", bytes));
    ASSERT_FALSE(file) << expected;
    EXPECT_NE(file.error().message().find(expected), std::string::npos) << file.error().message();
    EXPECT_NE(file.error().message().find("bad.safetensors"), std::string::npos) << file.error().message();
  }
  EXPECT_EQ(read_safetensors(directory.path("none")).error().kind(), ErrorKind::not_found);
  EXPECT_FALSE(read_safetensors(directory.path()));
}

const std::vector<MadeTensor> kSmall = {{"model.norm.weight", "F32", {3}, std::string(12, '\1')},
                                        {"model.embed.weight", "BF16", {2, 4}, std::string(16, '\2')},
                                        {"scale", "F8_E4M3", {}, "\3"}};

Result<SafetensorsFile> parse_text(const std::string& text) {
  const ExactBytes exact(text);
  return parse_safetensors(exact.bytes, exact.data, "memory");
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string whole = safetensors_bytes(kSmall);
  ASSERT_TRUE(parse_text(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parse_text(whole.substr(0, size))) << size;
}

TEST(Safetensors, SurvivesRandomDamage) {
  const std::string whole = safetensors_bytes(kSmall);
  std::mt19937 random(1);
  int accepted = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string damaged = whole;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto file = parse_text(damaged);
    if (!file) continue;
    ++accepted;
    unsigned sum = 0;
    for (const StoredTensor& tensor : file->tensors)
      for (const std::byte byte : tensor.bytes) sum += std::to_integer<unsigned>(byte);
    EXPECT_GT(sum, 0u);
  }
  EXPECT_GT(accepted, 100) << "damage to names and data is not damage to the container";
}

// Every tensor of every fixture has the dtype and shape that the library which wrote it reports.
int check_fixtures(const std::string& golden) {
  int directories = 0;
  for (const auto& place : std::filesystem::directory_iterator(golden)) {
    if (!file_exists((place.path() / "model.safetensors").string())) continue;
    ++directories;
    const auto file = read_safetensors((place.path() / "model.safetensors").string());
    EXPECT_TRUE(file) << message_of(file);
    if (!file) continue;
    for (const StoredTensor& tensor : file->tensors)
      EXPECT_EQ(tensor.file, (place.path() / "model.safetensors").string());
    const auto meta = read_json_file((place.path() / "meta.json").string());
    const Json* expected = meta ? find_member(*meta, "tensors") : nullptr;
    if (expected == nullptr) continue;
    EXPECT_EQ(file->tensors.size(), expected->size()) << place.path();
    for (const StoredTensor& tensor : file->tensors) {
      const Json* facts = find_member(*expected, tensor.name);
      EXPECT_NE(facts, nullptr) << tensor.name;
      if (facts == nullptr) continue;
      EXPECT_EQ((*facts)[1].get<std::vector<std::int64_t>>(), tensor.shape) << tensor.name;
    }
    EXPECT_TRUE(read_safetensors((place.path() / "golden.safetensors").string()));
  }
  return directories;
}

TEST(Safetensors, ReadsTheCommittedGoldens) { EXPECT_GE(check_fixtures(OCTAVO_SOURCE_DIR "/tests/golden"), 3); }

TEST(Safetensors, ReadsAllGoldens) {
  const std::string fixtures = large_fixtures(1);
  if (fixtures.empty()) return;
  EXPECT_GE(check_fixtures(fixtures + "/golden"), 19);
}

}  // namespace
}  // namespace octavo
