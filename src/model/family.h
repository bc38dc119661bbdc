// Family: one row of families.cc. The architectures and GGUF names it answers to, and how it is made.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf_form.h"
#include "model/model.h"

namespace octavo {

struct FamilyInput {
  const Json& config;  // overrides applied; of a GGUF file: its metadata under config.json's names
  bool from_gguf = false;
  RankOf rank;
  // Whether the checkpoint has this tensor, by its own name: spellings of one family differ by who saved the file.
  std::function<bool(const std::string& name)> has_tensor;
  ModelSpec facts;  // what holds for every family: architecture, stored dtype, quantization, begin and end tokens
};

struct Family {
  std::string_view name;
  std::string_view models;  // what people call those that are read by it
  std::vector<std::string_view> architectures;  // config.json "architectures"
  std::string_view gguf;  // general.architecture, also the prefix of its keys; empty: no GGUF form
  Result<std::unique_ptr<Model>> (*make)(const FamilyInput& input);
  GgufForm gguf_form = {};
};

// All families, in the order in which they are listed to people. A new family is one file and one line there.
std::vector<Family> families();
// README's table of them.
std::string families_markdown();

Family llama_family();
Family qwen3_family();
Family qwen3_moe_family();
Family gpt_oss_family();
Family gemma4_family();
Family qwen3_5_family();
Family deepseek_family();

}  // namespace octavo
