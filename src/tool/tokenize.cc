#include "tool/tokenize.h"

#include <algorithm>

#include "base/json.h"
#include "base/strings.h"
#include "engine/text_assets.h"
#include "terminal/console.h"
#include "tool/token_ids.h"

namespace octavo {
namespace {

Result<std::vector<std::int32_t>> encode(const Tokenizer& tokenizer, const std::string& text,
                                         const TokenizeOptions& options) {
  return tokenizer.encode(text, {.parse_special = !options.plain, .add_special = options.add_special});
}

// One line of --jsonl: {"text": ..} -> {"ids": ..}, {"ids": ..} -> {"text": ..}.
Result<Json> answer_line(const Tokenizer& tokenizer, const Json& line, const TokenizeOptions& options) {
  OCTAVO_TRY(const auto text, find_string(line, "text"));
  if (text) {
    OCTAVO_TRY(const auto ids, encode(tokenizer, *text, options));
    return Json{{"ids", ids}};
  }
  const Json* list = find_member(line, "ids");
  if (list == nullptr) return Error("a line must be {\"text\": ...} or {\"ids\": [...]}, but is " + to_text(line));
  OCTAVO_TRY(const auto ids, token_ids_of(*list, tokenizer.vocab_size()));
  OCTAVO_TRY(const auto skip, find_bool(line, "skip_special"));
  return Json{{"text", tokenizer.decode(ids, {.skip_special = skip.value_or(false)})}};
}

// Lines of stdin that hold something, with their numbers.
template <class Line>
Status for_each_line(Line&& line) {
  OCTAVO_TRY(const std::string input, read_stdin_text());
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < input.size();) {
    const std::size_t end = std::min(input.find('\n', begin), input.size());
    const std::string_view text = std::string_view(input).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!trim(text).empty()) OCTAVO_TRY(line(text, "stdin, line " + std::to_string(number)));
  }
  return {};
}

Result<std::string> render(const TemplateAsset& asset, std::string_view text, const std::string& what) {
  OCTAVO_TRY(const OrderedJson given, parse_ordered_json(text, what));
  if (!given.is_object() || !given.contains("messages") || !given.at("messages").is_array())
    return Error(what + " must be a JSON object with a list \"messages\"");
  for (const OrderedJson& message : given.at("messages"))
    if (!message.is_object()) return Error(what + ": a message must be an object, but is " + to_text(message));
  OrderedJson variables = asset.special;
  variables.update(given);
  return asset.chat_template.render(variables);
}

}  // namespace

Status tokenize(const TokenizeOptions& options) {
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open_text(options.model_path));
  OCTAVO_TRY(const Tokenizer tokenizer, load_tokenizer(checkpoint));
  if (options.jsonl) {
    return for_each_line([&](std::string_view text, const std::string& what) -> Status {
      OCTAVO_TRY(const Json line, parse_json(text, what));
      OCTAVO_TRY(const Json answer, answer_line(tokenizer, line, options).in(what));
      return write_stdout(to_text(answer) + "\n");
    });
  }
  OCTAVO_TRY(const std::string input, read_stdin_text());
  if (options.decode) {
    OCTAVO_TRY(const Json list, parse_json(input, "stdin"));
    OCTAVO_TRY(const auto ids, token_ids_of(list, tokenizer.vocab_size()).in("stdin"));
    return write_stdout(tokenizer.decode(ids));
  }
  OCTAVO_TRY(const auto ids, encode(tokenizer, input, options));
  return write_stdout(to_text(Json(ids)) + "\n");
}

Status render_template(const TemplateOptions& options) {
  OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open_text(options.model_path));
  OCTAVO_TRY(const TemplateAsset asset, load_chat_template(checkpoint, options.chat_template));
  if (options.jsonl) {
    return for_each_line([&](std::string_view text, const std::string& what) -> Status {
      const Result<std::string> prompt = render(asset, text, what);
      return write_stdout(to_text(prompt ? Json{{"prompt", *prompt}} : Json{{"error", prompt.error().message()}}) +
                          "\n");
    });
  }
  OCTAVO_TRY(const std::string input, read_stdin_text());
  OCTAVO_TRY(const std::string prompt, render(asset, input, "stdin"));
  return write_stdout(prompt);
}

}  // namespace octavo
