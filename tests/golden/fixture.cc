#include "tests/golden/fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "checkpoint/safetensors.h"
#include "cpu/backend.h"
#include "tensor/float8.h"

namespace octavo::golden {
namespace {

std::optional<std::string> outside(const std::string& path) {
  const char* root = std::getenv("OCTAVO_FIXTURES");
  if (root != nullptr && std::filesystem::exists(std::string(root) + "/" + path)) return std::string(root) + "/" + path;
  std::printf("1 case not run: set OCTAVO_FIXTURES to the folder that holds %s\n", path.c_str());
  return std::nullopt;
}

// "model.layers.", or what stands before it in a file with towers.
std::string layers_prefix(const std::vector<StoredTensor>& tensors) {
  constexpr std::string_view kEmbedding = "embed_tokens.weight";
  for (const StoredTensor& tensor : tensors)
    if (tensor.name.ends_with(kEmbedding))
      return tensor.name.substr(0, tensor.name.size() - kEmbedding.size()) + "layers.";
  return "";
}

}  // namespace

std::optional<std::string> find(const std::string& name) {
  const std::string committed = std::string(OCTAVO_SOURCE_DIR) + "/tests/golden/" + name;
  if (std::filesystem::exists(committed)) return committed;
  return outside("golden/" + name);
}

std::optional<std::string> find_file(const std::string& path) { return outside(path); }

Golden load(const std::string& folder) {
  Golden golden;
  golden.folder = folder;
  const auto file = read_safetensors(folder + "/golden.safetensors");
  EXPECT_TRUE(file) << file.error().message();
  for (const StoredTensor& tensor : file->tensors) {
    const std::byte* bytes = tensor.bytes.data();
    if (tensor.dtype == DType::f32) {
      std::vector<float>& values = golden.floats[tensor.name];
      values.resize(tensor.bytes.size() / 4);
      std::memcpy(values.data(), bytes, tensor.bytes.size());
    } else if (tensor.dtype == DType::f16) {
      for (std::size_t i = 0; i < tensor.bytes.size(); i += 2) {
        std::uint16_t bits;
        std::memcpy(&bits, bytes + i, 2);
        golden.floats[tensor.name].push_back(f32_from_f16(bits));
      }
    } else if (tensor.dtype == DType::i64 || tensor.dtype == DType::i32) {
      const std::size_t width = tensor.dtype == DType::i64 ? 8 : 4;
      for (std::size_t i = 0; i < tensor.bytes.size(); i += width) {
        std::int64_t value = 0;
        std::memcpy(&value, bytes + i, width);
        golden.ids[tensor.name].push_back(static_cast<std::int32_t>(value));
      }
    }
    if (tensor.name == "logits") golden.vocab = static_cast<int>(tensor.shape.back());
  }
  golden.meta = *read_json_file(folder + "/meta.json");
  return golden;
}

double bfloat_bound(const Golden& golden) {
  const Json* eager = find_member(golden.meta, "bf16_eager");
  return eager != nullptr ? 1.5 * eager->at("rel_l2").get<double>() : 0.03;
}

std::string test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

EngineConfig engine_config(const std::string& folder) {
  EngineConfig config;
  config.model_path = folder;
  config.compute = DType::f32;
  config.max_num_seqs = 8;
  return config;
}

BackendFactory cpu_factory(bool plain, bool deterministic) {
  return [plain, deterministic](int num_ranks) {
    cpu::Config config;
    config.isa = plain ? cpu::Isa::plain : cpu::best_isa();
    config.deterministic = deterministic;
    return cpu::make_backends(config, num_ranks);
  };
}

std::unique_ptr<Engine> make_engine(const EngineConfig& config, bool plain) {
  auto engine = Engine::create(config, cpu_factory(plain));
  EXPECT_TRUE(engine) << engine.error().message();
  return engine ? std::move(*engine) : nullptr;
}

double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  const std::size_t n = std::min(a.size(), b.size());
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = a[a.size() - n + i];
    const double y = b[b.size() - n + i];
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(difference / norm);
}

std::string copy_with_scales(const std::string& folder, const std::vector<float>& key,
                             const std::vector<float>& value) {
  char name[] = "/tmp/octavo-golden-XXXXXX";
  const std::string copy = ::mkdtemp(name);
  std::filesystem::copy_file(folder + "/config.json", copy + "/config.json");
  auto file = read_safetensors(folder + "/model.safetensors");
  EXPECT_TRUE(file) << file.error().message();
  std::vector<StoredTensor> tensors;
  for (const StoredTensor& tensor : file->tensors)
    if (!tensor.name.ends_with(".k_scale") && !tensor.name.ends_with(".v_scale") && !tensor.name.ends_with(".q_scale"))
      tensors.push_back(tensor);
  const std::string prefix = layers_prefix(tensors);
  for (std::size_t layer = 0; layer < key.size(); ++layer)
    for (const auto& [suffix, scales] : {std::pair{".k_scale", &key}, std::pair{".v_scale", &value}}) {
      if (std::isnan((*scales)[layer])) continue;
      StoredTensor scale;
      scale.name = prefix + std::to_string(layer) + ".self_attn" + suffix;
      scale.dtype = DType::f32;
      scale.shape = {1};
      scale.bytes = std::as_bytes(std::span(&(*scales)[layer], 1));
      tensors.push_back(scale);
    }
  EXPECT_TRUE(write_safetensors(copy + "/model.safetensors", tensors));
  return copy;
}

}  // namespace octavo::golden
