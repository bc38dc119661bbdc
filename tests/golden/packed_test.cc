// A file whose matrices are packed in many types at once, as Q4_K_M files are, gives the logits of the numbers that the
// gguf package reads from it (llama-packed/make.py computed them in double).

#include <gtest/gtest.h>

#include "tests/golden/fixture.h"

namespace octavo::golden {
namespace {

TEST(PackedWeights, AMixedFileGivesTheLogitsOfItsNumbers) {
  const Golden golden = load(*find("llama-packed"));
  const std::vector<std::int32_t>& ids = golden.ids.at("input_ids");
  for (const bool plain : {false, true}) {
    const auto engine = make_engine(engine_config(golden.folder + "/model.gguf"), plain);
    ASSERT_TRUE(engine);
    for (const std::optional<int> decode_from : {std::optional<int>(), std::optional<int>(30)}) {
      const auto logits = engine->logits(ids, decode_from);
      ASSERT_TRUE(logits) << logits.error().message();
      EXPECT_LT(relative_l2(*logits, golden.floats.at("logits")), 5e-4) << (plain ? "plain" : "vectors");
    }
  }
}

}  // namespace
}  // namespace octavo::golden
