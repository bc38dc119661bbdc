// Golden checkpoints: where they are, their tensors, and distances. Committed ones lie beside this file; the larger
// ones are found by OCTAVO_FIXTURES and, where it is not set, are counted as not run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"

namespace octavo::golden {

// The checkpoints whose every form is held to its logits, on each wing.
inline constexpr const char* kNames[] = {
    "llama-base",   "llama-rope3",     "llama-fp8-tensor-kv", "llama-fp8-channel-headkv", "qwen3-base",
    "qwen3-yarn",   "qwen3-fp8-block", "qwen3moe-base",       "qwen3moe-fp8-block",       "gptoss-base",
    "gptoss-mxfp4", "gemma4-base",     "gemma4-hub"};
// And those with a latent cache.
inline constexpr const char* kLatentNames[] = {"mla-base", "mla-512", "kimi-hub", "kimi-int4"};
// And those with recurrent states.
inline constexpr const char* kStateNames[] = {"qwen35-two", "qwen35-base", "qwen35-hub"};

// The folder of a golden, or nullopt (and one line on stdout) when only OCTAVO_FIXTURES would have it.
std::optional<std::string> find(const std::string& name);
// A file under OCTAVO_FIXTURES, or nullopt with one line on stdout.
std::optional<std::string> find_file(const std::string& path);

struct Golden {
  std::string folder;
  std::map<std::string, std::vector<float>> floats;      // f32 and f16 tensors
  std::map<std::string, std::vector<std::int32_t>> ids;  // integer tensors
  Json meta;
  int vocab = 0;
};
Golden load(const std::string& folder);
// The distance to the reference that bfloat16 may have: half as much again as the library's own.
double bfloat_bound(const Golden& golden);
// A golden's name as GoogleTest takes it.
std::string test_name(std::string name);

// Config of an engine over this folder on the CPU wing, float32 and unrounded unless changed.
EngineConfig engine_config(const std::string& folder);
BackendFactory cpu_factory(bool plain = false, bool deterministic = false);  // of any number of ranks
std::unique_ptr<Engine> make_engine(const EngineConfig& config, bool plain = false);

// ||a - b|| / ||b|| over the common tail: the last min(a, b) numbers.
double relative_l2(const std::vector<float>& a, const std::vector<float>& b);

// A copy of a checkpoint in a new folder under /tmp, with KV scales per layer written as k_scale / v_scale; none where
// they are NaN: a layer without a cache of its own.
std::string copy_with_scales(const std::string& folder, const std::vector<float>& key, const std::vector<float>& value);

}  // namespace octavo::golden
