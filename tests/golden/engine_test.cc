// The suite over the processor's paths: the plain one, and with --deterministic the fastest.

#include "tests/golden/engine_suite.h"

namespace octavo::golden {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Paths, RealEngine,
    testing::Values(Path{"plain_bf16", "llama-base", "auto", cpu_factory(true, true)},
                    Path{"plain_fp8", "llama-base", "fp8", cpu_factory(true, true)},
                    Path{"fast_bf16", "llama-base", "auto", cpu_factory(false, true)},
                    Path{"fast_int8_fp8", "llama-base", "int8:fp8", cpu_factory(false, true)},
                    Path{"fast_qwen_fp8", "qwen3-base", "fp8", cpu_factory(false, true)},
                    Path{"plain_experts", "qwen3moe-fp8-block", "auto", cpu_factory(true, true)},
                    Path{"fast_experts_int8_fp8", "qwen3moe-fp8-block", "int8:fp8", cpu_factory(false, true)},
                    Path{"plain_windows_int8_fp8", "gptoss-mxfp4", "int8:fp8", cpu_factory(true, true)},
                    Path{"fast_windows_fp8", "gptoss-mxfp4", "fp8", cpu_factory(false, true)},
                    Path{"plain_shared_fp8", "gemma4-hub", "fp8", cpu_factory(true, true)},
                    Path{"fast_shared_int8_fp8", "gemma4-hub", "int8:fp8", cpu_factory(false, true)},
                    Path{"plain_states_int8_fp8", "qwen35-two", "int8:fp8", cpu_factory(true, true)},
                    Path{"fast_states", "qwen35-two", "auto", cpu_factory(false, true)},
                    Path{"plain_latent_fp8", "kimi-int4", "fp8", cpu_factory(true, true)},
                    Path{"fast_latent", "kimi-int4", "auto", cpu_factory(false, true)}),
    [](const auto& path) { return path.param.name; });

}  // namespace
}  // namespace octavo::golden
