#include "app/options.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/strings.h"

namespace octavo {
namespace {

Options parsed(const std::vector<std::string>& arguments) {
  auto result = parse_options(arguments);
  EXPECT_TRUE(result) << result.error().message();
  return result && result->options ? *result->options : Options();
}
std::string refusal(const std::vector<std::string>& arguments) {
  const auto result = parse_options(arguments);
  return result ? "accepted" : result.error().message();
}

TEST(Options, DashesAndUnderscoresAreAlike) {
  for (const char* name : {"--kv-cache-dtype", "--kv_cache_dtype", "--kv_cache-dtype"}) {
    const Options options = parsed({"run", "m", name, "int8:fp8"});
    EXPECT_EQ(options.engine.kv_cache.key, KvElem::int8) << name;
    EXPECT_EQ(options.engine.kv_cache.value, KvElem::e4m3) << name;
  }
  EXPECT_EQ(parsed({"run", "--chat_template=a_b", "m_o"}).chat_template, "a_b");
  EXPECT_EQ(parsed({"run", "--chat_template=a_b", "m_o"}).model, "m_o");
}

TEST(Options, SizesAreReadAsVllmReadsThem) {
  EXPECT_EQ(parsed({"run", "m", "--max-model-len", "8k"}).engine.max_model_len, 8000);
  EXPECT_EQ(parsed({"run", "m", "--max-model-len=8K"}).engine.max_model_len, 8192);
  EXPECT_EQ(parsed({"run", "m", "--max-model-len", "auto"}).engine.max_model_len, std::nullopt);
  EXPECT_EQ(parsed({"run", "m", "--kv-cache-memory-bytes", "2G"}).engine.kv_cache_bytes, std::int64_t{2} << 30);
}

TEST(Options, LayerListsTakeEveryForm) {
  using Values = std::vector<std::string>;
  const std::string flag = "--kv-cache-dtype-skip-layers";
  EXPECT_EQ(parsed({"run", "m", flag, "0", "1", "23"}).engine.skip_layers, Values{"0,1,23"});
  EXPECT_EQ(parsed({"run", flag, "0,-1", "-2", "m"}).engine.skip_layers, Values{"0,-1,-2"});
  EXPECT_EQ(parsed({"run", flag, "0,-1", "-2", "m"}).model, "m");
  EXPECT_EQ(parsed({"run", "--kv_cache_dtype_skip_layers=-1", "-3", "m", "--seed", "1"}).engine.skip_layers,
            Values{"-1,-3"});
  EXPECT_EQ(parsed({"run", "m", flag, "sliding_window", "-p", "x"}).engine.skip_layers, Values{"sliding_window"});
}

TEST(Options, VllmsStartCommandsWorkWithOneWordChanged) {
  const Options options = parsed({"serve",
                                  "m",
                                  "-tp",
                                  "2",
                                  "--dtype",
                                  "auto",
                                  "-q",
                                  "fp8",
                                  "-O3",
                                  "--no-enable-log-requests",
                                  "--download_dir",
                                  "/models",
                                  "--tokenizer",
                                  "m",
                                  "--revision",
                                  "main",
                                  "--gpu-memory-utilization",
                                  "0.9",
                                  "--pipeline-parallel-size",
                                  "1",
                                  "-dp=1",
                                  "--runner",
                                  "generate",
                                  "--max-logprobs",
                                  "20",
                                  "--compilation-config",
                                  "{}",
                                  "--async-scheduling",
                                  "--limit-mm-per-prompt",
                                  "{}",
                                  "--root-path",
                                  "/v",
                                  "--chat-template-content-format",
                                  "auto",
                                  "--cpu-offload-gb",
                                  "0",
                                  "--max-num-seqs",
                                  "8"});
  EXPECT_EQ(options.engine.tensor_parallel, 2);
  EXPECT_EQ(options.engine.max_num_seqs, 8);
  const auto contains = [](const std::vector<std::string>& arguments, const std::string& part) {
    EXPECT_NE(refusal(arguments).find(part), std::string::npos) << refusal(arguments);
  };
  contains({"serve", "m", "-pp", "2"}, "--pipeline-parallel-size: \"2\" is not 1: ");
  contains({"serve", "m", "--runner", "pooling"}, "--runner: \"pooling\" is not auto or generate: ");
  contains({"serve", "m", "--enable-lora"}, "--enable-lora is refused: ");
  contains({"serve", "m", "--speculative-config", "{}"}, "--speculative-config is refused: ");
}

TEST(Options, WrongUsageNamesTheThing) {
  const auto contains = [](const std::vector<std::string>& arguments, const std::string& part) {
    EXPECT_NE(refusal(arguments).find(part), std::string::npos) << refusal(arguments);
  };
  contains({"run", "m", "--kv-cache-dtyp", "fp8"}, "did you mean --kv-cache-dtype?");
  contains({"rum"}, "did you mean run?");
  contains({"run", "a", "b"}, "unexpected argument \"b\"");
  contains({"run", "m", "--top-p", "0"}, "--top-p");
  contains({"run", "m", "--dtype", "float16"}, "use bfloat16");
  contains({"run", "m", "--calculate-kv-scales"}, "--calculate-kv-scales is refused");
  contains({"run", "m", "--tensor-parallel-size", "0"}, "--tensor-parallel-size: \"0\" is not between 1 and 1024");
  contains({"inspect"}, "needs a MODEL");
  contains({}, "no command");
}

TEST(Options, BenchesTakeLists) {
  const Options options =
      parsed({"bench", "latency", "m", "--input_len", "256,1k,8K", "--kv-cache-dtype", "auto, int8:fp8"});
  EXPECT_EQ(options.command, Command::bench_latency);
  EXPECT_EQ(options.input_lens, (std::vector<int>{256, 1000, 8192}));
  ASSERT_EQ(options.kv_caches.size(), 2u);
  EXPECT_TRUE(options.kv_caches[0].choice.automatic);
  EXPECT_EQ(options.kv_caches[1].name, "int8:fp8");
  EXPECT_EQ(options.kv_caches[1].choice.value, KvElem::e4m3);
  EXPECT_TRUE(parsed({"bench", "sweep", "m"}).input_lens.empty());
  EXPECT_EQ(parsed({"bench", "throughput", "m", "--input-len", "7"}).input_lens, std::vector<int>{7});
  EXPECT_EQ(parsed({"eval", "kld", "m", "--text", "t", "--kv-cache-dtype", "fp8"}).engine.kv_cache.key, KvElem::e4m3);
  EXPECT_NE(refusal({"bench", "sweep", "m", "--no-enable-prefix-caching"}).find("is not known"), std::string::npos);
  EXPECT_NE(refusal({"run", "m", "--kv-cache-dtype", "auto,fp8"}).find("--kv-cache-dtype"), std::string::npos);
}

TEST(Options, BenchServeTakesTheListsOfItsModel) {
  std::vector<std::string> arguments;
  for (const std::string_view word :
       split("bench serve --goodput ttft:200 tpot:30.5 --base_url https://h:9/v1 --metadata a=1 --metadata b=x=y c=3 "
             "--request-rate 2.5 --metric-percentiles 50,99.9 --temperature 0.7 --input-len 8K --top-k -1",
             " "))
    arguments.emplace_back(word);
  const Options options = parsed(arguments);
  const BenchServeOptions& bench = options.bench_serve;
  EXPECT_EQ(bench.results.goodput, (std::map<std::string, double>{{"ttft", 200}, {"tpot", 30.5}}));
  EXPECT_EQ(bench.metadata, (std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"b", "x=y"}, {"c", "3"}}));
  EXPECT_EQ(bench.client.server.origin(), "https://h:9");
  EXPECT_EQ(bench.load.request_rate, 2.5);
  EXPECT_EQ(bench.load.input_len, 8192);
  EXPECT_EQ(bench.results.percentiles, (std::vector<double>{50, 99.9}));
  EXPECT_EQ(bench.extra_body, "{\"temperature\":0.7,\"top_k\":-1}");
  EXPECT_EQ(parsed({"bench", "serve", "--request-rate", "inf"}).bench_serve.load.request_rate, std::nullopt);
  EXPECT_EQ(parsed({"chat"}).chat.client.server.origin(), "http://127.0.0.1:8000");
  EXPECT_NE(refusal({"chat", "MODEL"}).find("unexpected argument"), std::string::npos);
  EXPECT_NE(refusal({"bench", "serve", "--goodput"}).find("--goodput"), std::string::npos);
}

TEST(Options, TheLastOfTwoEqualFlagsCounts) {
  EXPECT_EQ(parsed({"run", "m", "--seed", "1", "--seed", "2"}).engine.seed, 2u);
  EXPECT_FALSE(parsed({"run", "m", "--no-enable-prefix-caching"}).engine.prefix_caching);
}

TEST(Options, TheFlagsPageIsTrue) {
  const auto page = read_file(std::string(OCTAVO_SOURCE_DIR) + "/docs/flags.md");
  if (!page || *page != flags_markdown()) {
    ASSERT_TRUE(write_file("flags.md", flags_markdown()));
    FAIL() << "docs/flags.md is not what the options say; the true page was written to flags.md in this folder";
  }
}

}  // namespace
}  // namespace octavo
