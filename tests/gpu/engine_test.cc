// The suite over a GPU that computes every row alike; and that a replayed step is the step.

#include "tests/golden/engine_suite.h"
#include "tests/gpu/gpu.h"

namespace octavo::golden {
namespace {

INSTANTIATE_TEST_SUITE_P(Gpu, RealEngine,
                         testing::Values(Path{"bf16", "llama-base", "auto", gpu::factory(true), 64},
                                         Path{"fp8", "llama-base", "fp8", gpu::factory(true), 64},
                                         Path{"int8_fp8", "llama-base", "int8:fp8", gpu::factory(true), 64},
                                         Path{"qwen_fp8", "qwen3-base", "fp8", gpu::factory(true), 64}),
                         [](const auto& path) { return path.param.name; });

// Three continuations of one request, so that a step of four holds padding, and every run plans the same steps.
std::vector<Heard> continuations(const BackendFactory& factory, const std::string& kv_cache) {
  const Golden golden = load(*find("llama-base"));
  EngineConfig config = engine_config(golden.folder);
  config.compute.reset();
  config.kv_cache = *parse_kv_cache_dtype(kv_cache);
  const auto engine = Engine::create(config, factory);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().message());
  Request request;
  request.prompt = golden.ids.at("input_ids");
  SamplingParams& sampling = request.sampling;
  sampling.temperature = 0.9f;
  sampling.seed = 5;
  sampling.max_tokens = 100;
  sampling.ignore_eos = true;
  sampling.logprobs = 2;
  sampling.n = 3;
  auto stream = (*engine)->submit(request).value();
  std::vector<Heard> heard(3);
  while (const auto event = stream->next()) {
    Heard& one = heard[static_cast<std::size_t>(event->index)];
    if (event->token) one.tokens.push_back(*event->token);
    if (event->logprobs) one.logprobs.push_back(event->logprobs->logprob);
    if (event->finish) one.finish = event->finish;
  }
  return heard;
}

TEST(Replay, GivesTheBitsOfTheStepsItself) {
  for (const char* kv_cache : {"auto", "fp8", "int8", "int8:fp8"}) {
    const std::vector<Heard> replayed = continuations(gpu::factory(), kv_cache);
    EXPECT_EQ(replayed[0].tokens.size(), 100u);
    EXPECT_EQ(replayed, continuations(gpu::unrecorded_factory(), kv_cache)) << kv_cache;
    EXPECT_EQ(replayed, continuations(gpu::factory(), kv_cache)) << kv_cache << ", run again";
  }
}

}  // namespace
}  // namespace octavo::golden
