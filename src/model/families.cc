// The list of families, and how a checkpoint finds its own.

#include <algorithm>
#include <map>

#include "base/shown.h"
#include "base/strings.h"
#include "model/config.h"
#include "model/family.h"
#include "model/gguf_form.h"

namespace octavo {
namespace {

Error unknown_architecture(const std::string& name) {
  const std::vector<std::string> known = supported_architectures();
  return Error("architecture " + in_quotes(name) + " is not supported; supported: " + join(known, ", "),
               ErrorKind::unsupported);
}

// The first entry of "architectures".
Result<std::string> architecture_of(const Json& config) {
  const Json* list = find_member(config, "architectures");
  if (list == nullptr)
    return Error("\"architectures\" is missing: the model's family cannot be told", ErrorKind::not_found);
  if (!list->is_array() || list->empty() || !list->front().is_string())
    return Error("\"architectures\" must be a list with a name, but is " + shown(*list));
  return list->front().get<std::string>();
}

// The dtype that holds most of a GGUF file's bytes.
std::string main_dtype(const GgufFile& file) {
  std::map<std::string_view, std::size_t> bytes;
  for (const StoredTensor& tensor : file.tensors()) bytes[dtype_info(tensor.dtype).name] += tensor.bytes.size();
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : std::string(most->first) + " (mostly)";
}

std::function<bool(const std::string&)> finder_of(const Checkpoint& checkpoint) {
  return [&checkpoint](const std::string& name) { return checkpoint.find(name) != nullptr; };
}

// What holds for every family, read once.
Result<ModelSpec> read_facts(const Checkpoint& checkpoint, const Json& config) {
  ModelSpec facts;
  OCTAVO_TRY(facts.quantization, read_quantization(config));
  OCTAVO_TRY(read_special_ids(config, checkpoint.generation_config(), facts));
  if (const GgufFile* file = checkpoint.gguf()) {
    facts.stored_dtype = main_dtype(*file);
  } else {
    OCTAVO_TRY(const auto newer, find_string(config, "dtype"));
    OCTAVO_TRY(const auto older, find_string(config, "torch_dtype"));
    facts.stored_dtype = newer.value_or(older.value_or("unknown"));
  }
  return facts;
}

Result<std::unique_ptr<Model>> make_from_gguf(const GgufFile& file, const Checkpoint& checkpoint,
                                              const ConfigOverrides& overrides, RankOf rank) {
  OCTAVO_TRY(const auto architecture, file.find_string("general.architecture"));
  if (!architecture) return Error("key general.architecture is missing", ErrorKind::not_found);
  for (const Family& family : families()) {
    if (family.gguf.empty() || family.gguf != *architecture) continue;
    const GgufForm& form = family.gguf_form;
    OCTAVO_TRY(Json from_file, form.config ? form.config(file) : dense_config_from_gguf(file, *architecture));
    OCTAVO_TRY(const Json config, apply_overrides(std::move(from_file), overrides));
    OCTAVO_TRY(ModelSpec facts, read_facts(checkpoint, config));
    facts.family = family.name;
    facts.architecture = *architecture;
    auto model = family.make({config, true, rank, finder_of(checkpoint), facts});
    if (!model && overrides.hf_overrides.empty()) return in_gguf_words(model.error(), *architecture, form);
    return model;
  }
  return unknown_architecture(*architecture);
}

Result<std::unique_ptr<Model>> make_from_config(const Checkpoint& checkpoint, const ConfigOverrides& overrides,
                                                RankOf rank) {
  OCTAVO_TRY(const Json config, apply_overrides(flatten_text_config(checkpoint.config()), overrides));
  OCTAVO_TRY(const std::string architecture, architecture_of(config));
  for (const Family& family : families()) {
    if (std::find(family.architectures.begin(), family.architectures.end(), architecture) == family.architectures.end())
      continue;
    OCTAVO_TRY(ModelSpec facts, read_facts(checkpoint, config));
    facts.family = family.name;
    facts.architecture = architecture;
    return family.make({config, false, rank, finder_of(checkpoint), facts});
  }
  return unknown_architecture(architecture);
}

// An end that no step can draw would be an answer without one.
Status check_ends(const ModelSpec& spec) {
  for (const std::int32_t id : spec.eos)
    if (id < 0 || id >= spec.vocab)
      return Error("\"eos_token_id\" " + std::to_string(id) + " is not in the vocabulary of " +
                   std::to_string(spec.vocab) + " tokens");
  return {};
}

Result<std::unique_ptr<Model>> make_unchecked(const Checkpoint& checkpoint, const ConfigOverrides& overrides,
                                              RankOf rank) {
  if (const GgufFile* file = checkpoint.gguf())
    return make_from_gguf(*file, checkpoint, overrides, rank).in(checkpoint.path());
  return make_from_config(checkpoint, overrides, rank).in(checkpoint.path() + "/config.json");
}

}  // namespace

std::vector<Family> families() {
  return {llama_family(),   qwen3_family(),  qwen3_moe_family(), qwen3_5_family(),
          gpt_oss_family(), gemma4_family(), deepseek_family()};
}

std::string families_markdown() {
  std::string table = "| models | `architectures` in config.json | GGUF architecture |\n|---|---|---|\n";
  for (const Family& family : families()) {
    std::string names;
    for (const std::string_view name : family.architectures)
      names += (names.empty() ? "`" : ", `") + std::string(name) + "`";
    const std::string gguf = family.gguf.empty() ? "none" : "`" + std::string(family.gguf) + "`";
    table += "| " + std::string(family.models) + " | " + names + " | " + gguf + " |\n";
  }
  return table;
}

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Family& family : families()) {
    for (const std::string_view name : family.architectures) names.emplace_back(name);
    if (!family.gguf.empty()) names.push_back(std::string(family.gguf) + " (GGUF)");
  }
  return names;
}

Result<std::unique_ptr<Model>> make_model(const Checkpoint& checkpoint, const ConfigOverrides& overrides, RankOf rank) {
  OCTAVO_TRY(auto model, make_unchecked(checkpoint, overrides, rank));
  OCTAVO_TRY(check_ends(model->spec()).in(checkpoint.path()));
  return model;
}

}  // namespace octavo
