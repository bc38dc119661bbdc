// rope: cos and sin of published configurations (tests/fixtures/unit/rope.safetensors), both orders of pairs, and
// lengths.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/safetensors.h"
#include "tests/conformance/arena.h"
#include "tests/conformance/numbers.h"
#include "tests/conformance/paths.h"

namespace octavo::conformance {
namespace {

struct Published {
  std::string name;
  std::vector<float> inv_freq, cos, sin;  // [pairs], [positions, pairs]; the attention factor is in cos and sin
};

struct Fixture {
  std::vector<std::int32_t> positions;
  std::vector<Published> configurations;
};

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  for (const StoredTensor& tensor : file.tensors)
    if (tensor.name == name) return read_floats(tensor).value();
  return {};
}

Fixture read_fixture() {
  const auto file = read_safetensors(std::string(OCTAVO_SOURCE_DIR) + "/tests/fixtures/unit/rope.safetensors");
  EXPECT_TRUE(file.has_value());
  Fixture fixture;
  for (const StoredTensor& tensor : file->tensors) {
    const std::size_t dot = tensor.name.rfind(".inv_freq");
    if (tensor.name == "positions") {
      for (std::size_t i = 0; i < tensor.bytes.size() / 8; ++i) {
        std::int64_t position;
        std::memcpy(&position, tensor.bytes.data() + 8 * i, 8);
        fixture.positions.push_back(static_cast<std::int32_t>(position));
      }
    } else if (dot != std::string::npos) {
      const std::string name = tensor.name.substr(0, dot);
      fixture.configurations.push_back(
          {name, floats_of(*file, tensor.name), floats_of(*file, name + ".cos"), floats_of(*file, name + ".sin")});
    }
  }
  return fixture;
}

// The factor that all cos and sin were multiplied by: their length.
float factor_of(const Published& p) { return static_cast<float>(std::hypot(p.cos[0], p.sin[0])); }

// Turning (1, 0) gives cos and sin themselves; a random row checks that pairs are the right ones.
void run_published(const Fixture& fixture, const Published& p, bool interleaved) {
  const auto tokens = static_cast<std::int64_t>(fixture.positions.size());
  const auto pairs = static_cast<std::int64_t>(p.inv_freq.size());
  const std::int64_t width = 2 * pairs;
  Random random(3);
  std::vector<float> x;
  std::vector<double> want;
  for (std::int64_t t = 0; t < tokens; ++t)
    for (int head = 0; head < 2; ++head) {
      const std::vector<float> row = random.normals(width);
      std::vector<double> turned(static_cast<std::size_t>(width));
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double a = head == 0 ? 1.0 : row[static_cast<std::size_t>(interleaved ? 2 * i : i)];
        const double b = head == 0 ? 0.0 : row[static_cast<std::size_t>(interleaved ? 2 * i + 1 : i + pairs)];
        const double c = p.cos[static_cast<std::size_t>(t * pairs + i)];
        const double s = p.sin[static_cast<std::size_t>(t * pairs + i)];
        turned[static_cast<std::size_t>(i)] = a * c - b * s;
        turned[static_cast<std::size_t>(i + pairs)] = b * c + a * s;
      }
      for (std::int64_t i = 0; i < width; ++i) {
        const bool first = interleaved ? i % 2 == 0 : i < pairs;
        x.push_back(head == 0 ? (first ? 1.0f : 0.0f) : row[static_cast<std::size_t>(i)]);
      }
      want.insert(want.end(), turned.begin(), turned.end());
    }
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const Tensor rows = arena.floats(x, {tokens, 2, width});
    path.backend->ops().rope({.x = rows,
                              .positions = arena.ints(fixture.positions, {tokens}),
                              .rule = {arena.floats(p.inv_freq, {pairs}), factor_of(p), interleaved}});
    expect_close(p.name, arena.read(rows), want, width, 2e-6);
  });
}

TEST(Rope, PublishedConfigurationsUpTo262143) {
  const Fixture fixture = read_fixture();
  EXPECT_GE(fixture.configurations.size(), 9u);
  for (const Published& p : fixture.configurations)
    for (const bool interleaved : {false, true}) run_published(fixture, p, interleaved);
}

TEST(Rope, TurnsAPartOfEachHeadAndLeavesTheRest) {
  Random random(4);
  const std::vector<float> x = rounded(random.normals(2 * 3 * 64), DType::bf16);
  for_each_path([&](Path& path) {
    Arena arena(path.backend->device());
    const Tensor rows = arena.floats(x, {2, 3, 64}, DType::bf16);
    const std::vector<std::int32_t> positions = {0, 9};
    path.backend->ops().rope({.x = rows.columns(0, 16),
                              .positions = arena.ints(positions, {2}),
                              .rule = {arena.floats(std::vector<float>(8, 0.25f), {8}), 1.0f, false}});
    const std::vector<float> got = arena.read(rows);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool turned = i >= 3 * 64 && i % 64 < 16;
      EXPECT_EQ(got[i] != x[i], turned) << "element " << i;
      if (!turned) continue;
      const std::size_t head = i / 64 * 64;
      const std::size_t pair = i % 8;
      const double a = x[head + pair], b = x[head + pair + 8];
      const double want =
          i % 64 < 8 ? a * std::cos(2.25) - b * std::sin(2.25) : b * std::cos(2.25) + a * std::sin(2.25);
      EXPECT_NEAR(got[i], want, 0x1p-8 * std::fabs(want) + 1e-6);
    }
    path.backend->ops().rope({.x = rows, .positions = arena.ints(positions, {2}), .rule = {}});
    EXPECT_EQ(arena.read(rows), got) << "a rule without frequencies turns nothing";
  });
}

}  // namespace
}  // namespace octavo::conformance
