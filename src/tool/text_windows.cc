#include "tool/text_windows.h"

#include <algorithm>

#include "base/file.h"
#include "base/strings.h"
#include "engine/text_assets.h"

namespace octavo {
namespace {

// Few enough that the logits of a large vocabulary take some hundred MiB, enough that matrices are read seldom.
constexpr int kRowsPerBlock = 256;

}  // namespace

int rows_per_block(const Engine& engine) { return std::max(kRowsPerBlock, engine.facts().page_size); }

Result<TextTokens> read_text_tokens(const std::string& file, const std::string& model_path) {
  OCTAVO_TRY(const std::string text, read_file(file));
  if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos)
    return Error(file + " is not valid UTF-8 at byte " + std::to_string(at));
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open_text(model_path));
  OCTAVO_TRY(const Tokenizer tokenizer, load_tokenizer(checkpoint));
  TextTokens tokens;
  tokens.file = file;
  tokens.prefix.assign(tokenizer.prefix().begin(), tokenizer.prefix().end());
  OCTAVO_TRY(tokens.ids, tokenizer.encode(text, {.parse_special = false}));
  return tokens;
}

std::optional<int> TextWindows::decode_from_in(int end) const {
  return decode_from ? std::optional(std::min(*decode_from, end)) : std::nullopt;
}

Result<TextWindows> cut_windows(const TextTokens& text, const ModelSpec& spec, std::optional<int> context,
                                std::optional<int> decode_from) {
  for (const std::int32_t id : text.ids)
    if (id >= spec.vocab)
      return Error(text.file + " holds token " + std::to_string(id) + ", but the model's vocabulary ends at " +
                   std::to_string(spec.vocab - 1));
  TextWindows result;
  result.num_prefix = static_cast<int>(text.prefix.size());
  result.num_tokens = std::ssize(text.ids);
  const std::int64_t positions = spec.max_positions;
  result.context = context.value_or(static_cast<int>(std::min<std::int64_t>(positions, kLongestDefaultWindow)));
  if (result.context > positions)
    return Error("--context " + std::to_string(result.context) + " is more than the " + std::to_string(positions) +
                 " positions that the model was made for");
  if (result.context < result.num_prefix + 2)
    return Error("--context " + std::to_string(result.context) + " is too short: at least " +
                 std::to_string(result.num_prefix + 2) + " tokens");
  if (decode_from && *decode_from > result.context)
    return Error("--decode-from " + std::to_string(*decode_from) + " is more than the " +
                 std::to_string(result.context) + " tokens of a window");
  result.decode_from = decode_from;
  const std::int64_t step = result.context - result.num_prefix;
  for (std::int64_t begin = 0; begin < result.num_tokens; begin += step) {
    std::vector<std::int32_t> window = text.prefix;
    window.insert(window.end(), text.ids.begin() + begin, text.ids.begin() + std::min(begin + step, result.num_tokens));
    if (window.size() >= 2) result.windows.push_back(std::move(window));
  }
  if (result.windows.empty())
    return Error(text.file + " holds " + std::to_string(result.num_tokens) + " tokens: there must be at least two");
  return result;
}

}  // namespace octavo
