#include "cpu/backend.h"

#include <gtest/gtest.h>

#include <string>

namespace octavo::cpu {
namespace {

AttentionShape shape_of(KvElem elem, int width, int q_heads) {
  AttentionShape shape;
  const KvGrain grain = elem == KvElem::int8 ? KvGrain::token_head : KvGrain::none;
  shape.format.num_segments = 2;
  shape.format.segments[0] = {KvPart::key, elem, grain, KvTransform::none, 2, width};
  shape.format.segments[1] = {KvPart::value, elem, grain, KvTransform::none, 2, width};
  shape.q_heads = q_heads;
  shape.page_size = 16;
  return shape;
}

TEST(CpuBackend, NamesOfPathsReadBack) {
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512, Isa::amx}) {
    const auto parsed = parse_isa(name_of(isa));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(*parsed, isa);
  }
  EXPECT_EQ(parse_isa("auto").value(), best_isa());
  const auto wrong = parse_isa("sse9");
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message().find("'sse9'"), std::string::npos);
}

TEST(CpuBackend, RunsEveryPathUpToTheBestAndRefusesBeyond) {
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512, Isa::amx}) {
    const auto backend = make_backend({.num_threads = 1, .isa = isa});
    EXPECT_EQ(backend.has_value(), isa <= best_isa());
    if (backend) continue;
    EXPECT_NE(backend.error().message().find(std::string(name_of(best_isa()))), std::string::npos);
  }
}

TEST(CpuBackend, SaysWhatItIs) {
  const auto backend = make_backend({.num_threads = 3, .isa = Isa::plain, .deterministic = true});
  ASSERT_TRUE(backend.has_value());
  EXPECT_EQ((*backend)->device().describe(), "3 threads, plain, deterministic");
  EXPECT_EQ((*backend)->comm().size(), 1);
}

TEST(CpuBackend, RefusesThreadCountsOutOfRange) {
  EXPECT_FALSE(make_backend({.num_threads = -1}).has_value());
  EXPECT_FALSE(make_backend({.num_threads = 1'000'000}).has_value());
}

TEST(CpuBackend, SupportsShapesOrNamesWhatIsWrong) {
  const auto backend = make_backend({.num_threads = 1}).value();
  EXPECT_TRUE(backend->supports(shape_of(KvElem::bf16, 64, 6)).has_value());
  EXPECT_TRUE(backend->supports(shape_of(KvElem::int8, 80, 2)).has_value());
  EXPECT_FALSE(backend->supports(shape_of(KvElem::bf16, 64, 5)).has_value()) << "5 query heads for 2 KV heads";
  AttentionShape small_pages = shape_of(KvElem::bf16, 64, 2);
  small_pages.page_size = 12;
  EXPECT_NE(backend->supports(small_pages).error().message().find("12"), std::string::npos);
  AttentionShape turned_values = shape_of(KvElem::e4m3, 64, 2);
  turned_values.format.segments[1].transform = KvTransform::hadamard;
  EXPECT_FALSE(backend->supports(turned_values).has_value());
  EXPECT_TRUE(backend->supports_compute(DType::bf16).has_value());
  EXPECT_TRUE(backend->supports_compute(DType::f32).has_value());
  EXPECT_NE(backend->supports_compute(DType::f16).error().message().find("f16"), std::string::npos);
}

}  // namespace
}  // namespace octavo::cpu
