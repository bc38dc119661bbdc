#include "checkpoint/scales.h"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace octavo {
namespace {

enum class Meaning { key, value, key_and_value, query, unused };

struct Spelling {
  std::string_view suffix;  // after the attention's prefix
  Meaning meaning;
};

constexpr std::array<Spelling, 12> kSpellings{{
    {".k_scale", Meaning::key},
    {".k_proj.k_scale", Meaning::key},
    {".k_proj.output_scale", Meaning::key},
    {".v_scale", Meaning::value},
    {".v_proj.v_scale", Meaning::value},
    {".v_proj.output_scale", Meaning::value},
    {".kv_scale", Meaning::key_and_value},
    {".q_scale", Meaning::query},
    {".q_proj.q_scale", Meaning::query},
    {".q_proj.output_scale", Meaning::query},
    {".prob_output_scale", Meaning::unused},
    {".prob_scale", Meaning::unused},
}};

// What one field was first found as, for the message when a second spelling disagrees.
struct Found {
  std::vector<float> scales;
  std::string name;
};

Error bad_scale(const StoredTensor& tensor, const std::string& what) {
  return Error(tensor.file + ": KV scale " + in_quotes(tensor.name) + " " + what);
}

// The tensor's scales, one a head; `per_head` is set if it has more than one or is shaped like heads.
Result<std::vector<float>> read_heads(const StoredTensor& tensor, int heads, bool& per_head) {
  const std::vector<std::int64_t>& shape = tensor.shape;
  const bool scalar = shape.empty() || (shape.size() == 1 && shape[0] == 1);
  const bool column = shape.size() == 3 && shape[1] == 1 && shape[2] == 1;
  const bool by_head = (shape.size() == 1 || column) && shape[0] == heads;
  if (!scalar && !by_head)
    return bad_scale(tensor, "has shape " + shape_text(shape) + ", expected [1], [" + std::to_string(heads) + "] or [" +
                                 std::to_string(heads) + ", 1, 1]");
  OCTAVO_TRY(std::vector<float> scales, read_floats(tensor));
  for (const float scale : scales)
    if (!std::isfinite(scale) || scale <= 0)
      return bad_scale(tensor, "holds " + std::to_string(scale) + ", but scales must be finite and positive");
  per_head = per_head || !scalar;
  scales.resize(static_cast<std::size_t>(heads), scales[0]);
  return scales;
}

Status take(const StoredTensor& tensor, int heads, bool& per_head, Found& field) {
  OCTAVO_TRY(std::vector<float> scales, read_heads(tensor, heads, per_head));
  if (field.name.empty()) {
    field = {std::move(scales), tensor.name};
    return {};
  }
  if (field.scales == scales) return {};
  return bad_scale(tensor,
                   "and " + in_quotes(field.name) + " give two different values for one thing; remove one of them");
}

}  // namespace

Result<StoredScales> read_kv_scales(const Checkpoint& checkpoint, const std::string& prefix, int q_heads,
                                    int kv_heads) {
  Found key, value, query;
  StoredScales scales;
  for (const Spelling& spelling : kSpellings) {
    const StoredTensor* tensor = checkpoint.find(prefix + std::string(spelling.suffix));
    if (tensor == nullptr || spelling.meaning == Meaning::unused) continue;
    if (spelling.meaning == Meaning::key || spelling.meaning == Meaning::key_and_value) {
      OCTAVO_TRY(take(*tensor, kv_heads, scales.per_head, key));
    }
    if (spelling.meaning == Meaning::value || spelling.meaning == Meaning::key_and_value) {
      OCTAVO_TRY(take(*tensor, kv_heads, scales.per_head, value));
    }
    if (spelling.meaning == Meaning::query) {
      OCTAVO_TRY(take(*tensor, q_heads, scales.per_head, query));
    }
  }
  scales.key = std::move(key.scales);
  scales.value = std::move(value.scales);
  scales.query = std::move(query.scales);
  return scales;
}

bool is_kv_scale_name(std::string_view name, std::string* prefix) {
  const Spelling* longest = nullptr;
  for (const Spelling& spelling : kSpellings)
    if (name.size() > spelling.suffix.size() && name.ends_with(spelling.suffix) &&
        (longest == nullptr || spelling.suffix.size() > longest->suffix.size()))
      longest = &spelling;
  if (longest != nullptr && prefix != nullptr) *prefix = name.substr(0, name.size() - longest->suffix.size());
  return longest != nullptr;
}

}  // namespace octavo
