#include "tool/text_windows.h"

#include <algorithm>

#include "base/file.h"
#include "base/strings.h"
#include "engine/text_assets.h"

namespace octavo {
namespace {

// Few enough that the logits of a large vocabulary take some hundred MiB, enough that matrices are read seldom.
constexpr int kRowsPerBlock = 256;

Result<std::vector<std::int32_t>> read_tokens(const std::string& file, const Tokenizer& tokenizer,
                                              const ModelSpec& spec) {
  OCTAVO_TRY(const std::string text, read_file(file));
  if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos)
    return Error(file + " is not valid UTF-8 at byte " + std::to_string(at));
  OCTAVO_TRY(auto ids, tokenizer.encode(text, {.parse_special = false}));
  for (const std::int32_t id : ids)
    if (id >= spec.vocab)
      return Error(file + " holds token " + std::to_string(id) + ", but the model's vocabulary ends at " +
                   std::to_string(spec.vocab - 1));
  return ids;
}

}  // namespace

int rows_per_block(const Engine& engine) { return std::max(kRowsPerBlock, engine.facts().page_size); }

Result<TextWindows> read_text_windows(const std::string& file, const std::string& model_path, const ModelSpec& spec,
                                      std::optional<int> context) {
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open_text(model_path));
  OCTAVO_TRY(const Tokenizer tokenizer, load_tokenizer(checkpoint));
  OCTAVO_TRY(const std::vector<std::int32_t> ids, read_tokens(file, tokenizer, spec));
  const auto prefix = tokenizer.prefix();

  TextWindows result;
  result.num_prefix = static_cast<int>(prefix.size());
  result.num_tokens = std::ssize(ids);
  const std::int64_t positions = spec.max_positions;
  result.context = context.value_or(static_cast<int>(std::min<std::int64_t>(positions, kLongestDefaultWindow)));
  if (result.context > positions)
    return Error("--context " + std::to_string(result.context) + " is more than the " + std::to_string(positions) +
                 " positions that the model was made for");
  if (result.context < result.num_prefix + 2)
    return Error("--context " + std::to_string(result.context) + " is too short: at least " +
                 std::to_string(result.num_prefix + 2) + " tokens");
  const auto step = static_cast<std::size_t>(result.context - result.num_prefix);
  for (std::size_t begin = 0; begin < ids.size(); begin += step) {
    std::vector<std::int32_t> window(prefix.begin(), prefix.end());
    window.insert(window.end(), ids.begin() + static_cast<std::ptrdiff_t>(begin),
                  ids.begin() + static_cast<std::ptrdiff_t>(std::min(begin + step, ids.size())));
    if (window.size() >= 2) result.windows.push_back(std::move(window));
  }
  if (result.windows.empty())
    return Error(file + " holds " + std::to_string(ids.size()) + " tokens: there must be at least two");
  return result;
}

}  // namespace octavo
