#include "kv/scales.h"

#include "base/check.h"

namespace octavo {
namespace {

// |rotated k_i| <= |k|_2, and a head's norm stays far below 8 times its largest channel in practice (kv-formats.md).
constexpr float kRotatedKeyFactor = 8.0f;

bool is_key(KvPart part) { return part == KvPart::key || part == KvPart::latent; }

}  // namespace

std::string_view name_of(ScaleSource source) {
  switch (source) {
    case ScaleSource::checkpoint:
      return "checkpoint";
    case ScaleSource::given:
      return "given";
    case ScaleSource::uncalibrated:
      return "1.0 uncalibrated";
  }
  return "?";
}

std::vector<float> stored_scales(const KvScales& scales, const KvSegment& segment) {
  if (segment.grain != KvGrain::tensor && segment.grain != KvGrain::head) return {};
  const auto heads = static_cast<std::size_t>(segment.heads);
  std::vector<float> stored = is_key(segment.part) ? scales.key : scales.value;
  if (stored.empty()) return std::vector<float>(heads, 1.0f);
  check(stored.size() == heads, "one scale for each KV head");
  if (segment.transform == KvTransform::hadamard)
    for (float& scale : stored) scale *= kRotatedKeyFactor;
  return stored;
}

}  // namespace octavo
