#include "kv/store.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>

namespace octavo {
namespace {

// Host memory that begins as garbage, and has an end.
class PlainDevice : public Device {
 public:
  explicit PlainDevice(std::size_t available = std::size_t{1} << 30) : available_(available) {}
  std::string describe() const override { return "plain"; }
  MemoryInfo memory() const override { return {available_, available_}; }
  Result<Buffer> allocate(std::size_t bytes, const std::string& purpose) override {
    if (bytes > available_) return Error("cannot allocate memory for " + purpose, ErrorKind::exhausted);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    std::memset(data, 0x7F, bytes);
    return Buffer(data, bytes, [](std::byte* memory) { std::free(memory); });
  }
  void fill_zero(std::byte* data, std::size_t bytes) override { std::memset(data, 0, bytes); }
  Result<Buffer> adopt(std::span<const std::byte>, std::shared_ptr<const void>, const std::string&) override {
    return Error("not here");
  }
  void upload(std::byte* to, std::span<const std::byte> from) override { std::memcpy(to, from.data(), from.size()); }
  void download(std::span<std::byte> to, const std::byte* from) override { std::memcpy(to.data(), from, to.size()); }
  void synchronize() override {}
  Result<std::unique_ptr<Recording>> record(std::function<void()>) override { return Error("not here"); }

 private:
  std::size_t available_;
};

KvFormat format_of(std::string_view dtype) {
  return grouped_format(parse_kv_cache_dtype(dtype).value(), KvElem::bf16, 2, 64, false).value();
}

// Layers 0 and 3 see everything, layer 0 in 16 bits; layer 2 slides; layer 1 has no cache.
StoreSpec three_layers() {
  StoreSpec spec;
  spec.groups.resize(2);
  spec.groups[0].layers = {{0, format_of("auto")}, {3, format_of("fp8")}};
  spec.groups[1] = {Lifetime::window, 16, {{2, format_of("int8:fp8")}}, {}};
  spec.num_pages = {5, 3};
  spec.scales.resize(4);
  spec.scales[3].key = {0.5f, 0.5f};
  spec.scales[3].value = {3.0f, 3.0f};
  spec.page_size = 16;
  return spec;
}

TEST(KvStore, EveryLayerHasItsZeroedPages) {
  PlainDevice device;
  const auto store = KvStore::create(device, three_layers()).value();
  std::int32_t table[2][4] = {};
  const Tensor page_table(table, DType::i32, {2, 4});
  const std::byte* end_of_last = nullptr;
  for (const auto& [layer, page_bytes, num_pages] : {std::tuple(0, 16 * 512, 5), {3, 16 * 256, 5}, {2, 16 * 260, 3}}) {
    const KvView view = store->view(layer, page_table);
    EXPECT_EQ(view.page_bytes, page_bytes);
    EXPECT_EQ(view.num_pages, num_pages);
    EXPECT_EQ(view.page_size, 16);
    EXPECT_EQ(view.page_table, &table[0][0]);
    EXPECT_EQ(view.max_pages, 4);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.pages) % 256, 0u);
    EXPECT_GE(view.pages, end_of_last);
    end_of_last = view.pages + view.page_bytes * view.num_pages;
    for (const std::byte* byte = view.pages; byte < end_of_last; ++byte) ASSERT_EQ(*byte, std::byte{0});
  }
  EXPECT_EQ(store->group_of(0), 0);
  EXPECT_EQ(store->group_of(1), -1);
  EXPECT_EQ(store->group_of(2), 1);
  EXPECT_EQ(store->group_of(99), -1);
  EXPECT_GE(store->bytes(), static_cast<std::size_t>(5 * 16 * (512 + 256) + 3 * 16 * 260));
  EXPECT_DEATH(store->view(1, page_table), "no cache");
}

TEST(KvStore, ScalesLieBesideThePages) {
  PlainDevice device;
  const auto store = KvStore::create(device, three_layers()).value();
  std::int32_t entry = 0;
  const Tensor page_table(&entry, DType::i32, {1, 1});
  const KvView fp8 = store->view(3, page_table);
  for (int head = 0; head < 2; ++head) {
    EXPECT_EQ(fp8.scales[0][head], 4.0f) << "eight times a calibrated scale of a rotated K";
    EXPECT_EQ(fp8.scales[1][head], 3.0f);
  }
  const KvView mixed = store->view(2, page_table);
  EXPECT_EQ(mixed.scales[0], nullptr) << "int8 carries its scales in the page";
  EXPECT_EQ(mixed.scales[1][1], 1.0f) << "absent means 1.0";
  EXPECT_EQ(store->view(0, page_table).scales[0], nullptr);
}

TEST(KvStore, CountersStartAtZeroAndAreReadBack) {
  PlainDevice device;
  const auto store = KvStore::create(device, three_layers()).value();
  std::int32_t entry = 0;
  const Tensor page_table(&entry, DType::i32, {1, 1});
  store->view(3, page_table).counters->written = 7;
  EXPECT_EQ(store->counters(3).written, 7u);
  EXPECT_EQ(store->counters(0).written, 0u);
  EXPECT_EQ(store->counters(2).key_amax, 0.0f);
}

TEST(KvStore, IdentityIsAllThatDecidesBytes) {
  PlainDevice device;
  const auto identity = [&](const auto& change) {
    StoreSpec spec = three_layers();
    change(spec);
    return KvStore::create(device, std::move(spec)).value()->identity();
  };
  const std::string same = identity([](StoreSpec&) {});
  EXPECT_EQ(same, identity([](StoreSpec& spec) {
              spec.num_pages = {9, 9};
            }))
      << "how many pages there are is no content";
  EXPECT_NE(same, identity([](StoreSpec& spec) { spec.page_size = 32; }));
  EXPECT_NE(same, identity([](StoreSpec& spec) { spec.scales[3].key = {0.5f, 0.5000001f}; }));
  EXPECT_NE(same, identity([](StoreSpec& spec) { spec.groups[0].layers[0].format = format_of("fp8"); }));
  EXPECT_NE(same, identity([](StoreSpec& spec) {
              spec.groups[1].layers[0].format.segments[0].transform = KvTransform::none;
            }));
}

// Records of every layer and part are apart, and begin as zeros.
TEST(KvStore, RecordsOfStateLayersAreFloat32AndApart) {
  PlainDevice device;
  StoreSpec spec = three_layers();
  CacheGroup state;
  state.lifetime = Lifetime::state;
  state.state_parts = {15, 7};
  state.layers = {{5, {}}, {6, {}}};
  spec.groups.push_back(state);
  spec.num_pages.push_back(3);
  const auto store = KvStore::create(device, std::move(spec));
  ASSERT_TRUE(store) << store.error().message();
  float number = 1;
  for (const int layer : {5, 6})
    for (const int part : {0, 1}) {
      const Tensor records = (*store)->state(layer, part);
      ASSERT_EQ(records.size(0), 3);
      ASSERT_EQ(records.size(1), part == 0 ? 15 : 7);
      for (std::int64_t i = 0; i < records.elements(); ++i) {
        EXPECT_EQ(records.data<float>()[i], 0.0f);
        records.data<float>()[i] = number;
      }
      ++number;
    }
  number = 1;
  for (const int layer : {5, 6})
    for (const int part : {0, 1}) {
      const Tensor records = (*store)->state(layer, part);
      for (std::int64_t i = 0; i < records.elements(); ++i) EXPECT_EQ(records.data<float>()[i], number);
      ++number;
    }
  EXPECT_EQ((*store)->group_of(5), 2);
}

TEST(KvStore, RefusesWhatCannotBe) {
  const auto refused = [](const auto& change, std::size_t available = std::size_t{1} << 30) {
    PlainDevice device(available);
    StoreSpec spec = three_layers();
    change(spec);
    const auto store = KvStore::create(device, std::move(spec));
    return store ? std::string("accepted") : store.error().message();
  };
  EXPECT_EQ(
      refused([](StoreSpec&) {}, 1000),
      "cannot allocate memory for the KV cache; 72.2 KiB were needed: choose a smaller --kv-cache-memory-bytes or "
      "--max-model-len, or an 8-bit --kv-cache-dtype");
  for (const int size : {0, -16, 4, 24})
    EXPECT_NE(refused([&](StoreSpec& s) { s.page_size = size; }).find("--block-size"), std::string::npos);
  EXPECT_NE(refused([](StoreSpec& s) { s.num_pages[1] = 1; }).find("at least one page"), std::string::npos);
  for (const float scale :
       {0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    EXPECT_NE(refused([&](StoreSpec& s) {
                s.scales[3].value = {1.0f, scale};
              }).find("layer 3: a scale of V"),
              std::string::npos);
  EXPECT_NE(refused([](StoreSpec& s) { s.scales[3].key = {1.0f}; }).find("1 scales of K for 2 KV heads"),
            std::string::npos);
  EXPECT_EQ(refused([](StoreSpec& s) { s.scales[2].key = {0.0f}; }), "accepted") << "int8 does not use a given scale";
  EXPECT_NE(refused([](StoreSpec& s) { s.num_pages[0] = 2147483647; }).find("than can be numbered"), std::string::npos);
  const auto wide = [](StoreSpec& s) {
    s.num_pages[0] = 1 << 27;
    for (KvSegment& segment : s.groups[0].layers[0].format.segments) segment.heads = segment.width = 1 << 15;
  };
  EXPECT_NE(refused(wide).find("layer 0: its size does not fit"), std::string::npos);
}

}  // namespace
}  // namespace octavo
