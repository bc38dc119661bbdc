// The suite over a GPU that computes every row alike; and that a replayed step is the step.

#include <initializer_list>

#include "tests/golden/engine_suite.h"
#include "tests/gpu/gpu.h"

namespace octavo::golden {
namespace {

INSTANTIATE_TEST_SUITE_P(Gpu, RealEngine,
                         testing::Values(Path{"bf16", "llama-base", "auto", gpu::factory(true), 64},
                                         Path{"fp8", "llama-base", "fp8", gpu::factory(true), 64},
                                         Path{"int8_fp8", "llama-base", "int8:fp8", gpu::factory(true), 64},
                                         Path{"qwen_fp8", "qwen3-base", "fp8", gpu::factory(true), 64},
                                         Path{"states_fp8", "qwen35-two", "fp8", gpu::factory(true), 64},
                                         Path{"latent_bf16", "kimi-int4", "auto", gpu::factory(true), 64},
                                         Path{"latent_fp8", "kimi-int4", "fp8", gpu::factory(true), 64}),
                         [](const auto& path) { return path.param.name; });

// Three continuations of one request, so that a step of four holds padding, and every run plans the same steps.
std::vector<Heard> continuations(const BackendFactory& factory, const std::string& model, const std::string& kv_cache) {
  const Golden golden = load(*find(model));
  EngineConfig config = gpu::engine_config(golden.folder);
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

void expect_replays(const std::string& model, std::initializer_list<const char*> kv_caches) {
  for (const char* kv_cache : kv_caches) {
    const std::vector<Heard> replayed = continuations(gpu::factory(), model, kv_cache);
    EXPECT_EQ(replayed[0].tokens.size(), 100u);
    EXPECT_EQ(replayed, continuations(gpu::unrecorded_factory(), model, kv_cache)) << kv_cache;
    EXPECT_EQ(replayed, continuations(gpu::factory(), model, kv_cache)) << kv_cache << ", run again";
  }
}

TEST(Replay, GivesTheBitsOfTheStepsItself) { expect_replays("llama-base", {"auto", "fp8", "int8", "int8:fp8"}); }
// The three share a record until they part, and padding has the sink's.
TEST(Replay, KeepsStatesApart) { expect_replays("qwen35-two", {"auto", "fp8"}); }

TEST(Replay, ReadsLatents) { expect_replays("kimi-int4", {"auto", "fp8", "int8"}); }

// Who begins as another did copies the record that was left behind.
TEST(GpuStates, ASnapshotGivesTheAnswerOfThePromptItself) {
  const Golden golden = load(*find("qwen35-two"));
  EngineConfig config = gpu::engine_config(golden.folder);
  config.max_model_len = 512;
  const auto engine = Engine::create(config, gpu::factory(true));
  ASSERT_TRUE(engine) << engine.error().message();
  Request request;
  const std::vector<std::int32_t>& text = golden.ids.at("input_ids");
  for (std::size_t i = 0; i < 400; ++i)
    request.prompt.push_back((text[i % text.size()] + static_cast<std::int32_t>(i)) % 500 + 3);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 8;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 1;
  const Heard anew = listen(**(*engine)->submit(request));
  const Heard copied = listen(**(*engine)->submit(request));
  EXPECT_EQ(anew.cached_tokens, 0);
  EXPECT_EQ(copied.cached_tokens, 384);
  EXPECT_EQ(copied, anew);
}

}  // namespace
}  // namespace octavo::golden
