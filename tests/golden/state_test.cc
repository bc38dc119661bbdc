// Layers with a recurrent state: a record is a sequence's own from its first token to its end, whoever had it before,
// what is given up in the middle is computed again to the same answer, and so is what begins from a snapshot.

#include <gtest/gtest.h>

#include <numeric>

#include "base/log.h"
#include "tests/golden/fixture.h"

namespace octavo::golden {
namespace {

constexpr const char* kRecurrent = "qwen35-two";

class State : public testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::error);
    golden_ = load(*find(kRecurrent));
  }

  EngineConfig config() const {
    EngineConfig config = engine_config(golden_.folder);
    config.page_size = 16;
    config.max_model_len = 128;
    return config;
  }

  Request request(int begin, int size, int max_tokens) const {
    const std::vector<std::int32_t>& text = golden_.ids.at("input_ids");
    Request request;
    request.prompt.assign(text.begin() + begin, text.begin() + begin + size);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = max_tokens;
    request.sampling.ignore_eos = true;
    return request;
  }

  Golden golden_;
};

std::vector<std::int32_t> tokens_of(TokenStream& stream) {
  std::vector<std::int32_t> tokens;
  while (const auto event = stream.next())
    if (event->token) tokens.push_back(*event->token);
  return tokens;
}

std::int64_t record_bytes(const ModelSpec& spec) {
  std::int64_t numbers = 0;
  for (const LayerSpec& layer : spec.layers)
    numbers = std::accumulate(layer.state_parts.begin(), layer.state_parts.end(), numbers);
  return numbers * 4;
}

TEST_F(State, APreemptedSequenceBeginsAnewFromZeros) {
  const auto roomy = make_engine(config(), true);
  std::vector<std::vector<std::int32_t>> expected;
  for (const int size : {33, 48}) expected.push_back(tokens_of(**roomy->submit(request(0, size, 70))));

  // Two records and the sink's are half of it, and no more than eight pages lie in the other.
  EngineConfig tight = config();
  tight.kv_cache_bytes = 6 * record_bytes(roomy->spec());
  const auto crowded = make_engine(tight, true);
  EXPECT_NE(crowded->facts().capacity_derivation.find("states: 2 records"), std::string::npos)
      << crowded->facts().capacity_derivation;
  // On a busy machine the first may have ended before the second is there.
  for (int round = 0; crowded->stats().preemptions == 0; ++round) {
    ASSERT_LT(round, 50) << "nothing was preempted";
    const auto first = *crowded->submit(request(0, 33, 70));
    const auto second = *crowded->submit(request(0, 48, 70));
    EXPECT_EQ(tokens_of(*first), expected[0]);
    EXPECT_EQ(tokens_of(*second), expected[1]);
  }
}

// One record for all of them, one after the other; the first never ends by itself.
TEST_F(State, ACancelledSequenceLeavesItsRecordToTheNext) {
  const std::vector<std::int32_t> alone = tokens_of(**make_engine(config(), true)->submit(request(7, 50, 12)));
  EngineConfig single = config();
  single.max_num_seqs = 1;
  const auto engine = make_engine(single, true);
  auto endless = *engine->submit(request(0, 20, 100));
  ASSERT_TRUE(endless->next());
  const auto next = *engine->submit(request(7, 50, 12));
  endless.reset();
  EXPECT_EQ(tokens_of(*next), alone);
  const auto after = *engine->submit(request(7, 50, 12));
  EXPECT_EQ(tokens_of(*after), alone);
}

// Two prompts of 400 tokens that share 300, on the path whose bits do not depend on how a prompt is cut.
TEST_F(State, PromptsThatShare300TokensHitAtLeast256) {
  const std::vector<std::int32_t>& text = golden_.ids.at("input_ids");
  const auto prompt_with_tail = [&](int tail) {
    Request request = this->request(0, 1, 8);
    for (int i = 1; i < 400; ++i)
      request.prompt.push_back((text[static_cast<std::size_t>(i) % text.size()] + (i < 300 ? i : i * tail)) % 500 + 3);
    request.sampling.logprobs = 1;
    return request;
  };
  EngineConfig config = this->config();
  config.page_size = 64;
  config.max_model_len = 512;
  const auto hear = [](Engine& engine, const Request& request) {
    std::pair<std::vector<float>, int> heard;
    const auto stream = *engine.submit(request);
    while (const auto event = stream->next()) {
      if (event->token) heard.first.push_back(static_cast<float>(*event->token));
      if (event->logprobs) heard.first.push_back(event->logprobs->logprob);
      heard.second += event->cached_tokens;
    }
    return heard;
  };
  EngineConfig uncached = config;
  uncached.prefix_caching = false;
  const auto anew = *Engine::create(uncached, cpu_factory(false, true));
  const auto engine = *Engine::create(config, cpu_factory(false, true));
  for (const auto& [tail, least] : {std::pair(7, 0), {11, 256}, {7, 384}, {13, 256}}) {
    const auto [expected, none] = hear(*anew, prompt_with_tail(tail));
    const auto [heard, cached] = hear(*engine, prompt_with_tail(tail));
    EXPECT_EQ(heard, expected) << tail;
    EXPECT_EQ(none, 0);
    EXPECT_GE(cached, least) << tail;
  }
}

TEST_F(State, RecurrentLayersHaveNoCacheDtype) {
  for (const char* skipped : {"linear_attention", "0"}) {
    EngineConfig config = this->config();
    config.kv_cache = *parse_kv_cache_dtype("fp8");
    config.skip_layers = {skipped};
    const auto engine = Engine::create(config, cpu_factory());
    ASSERT_FALSE(engine) << skipped;
    EXPECT_NE(engine.error().message().find("--kv-cache-dtype-skip-layers"), std::string::npos)
        << engine.error().message();
  }
}

}  // namespace
}  // namespace octavo::golden
