#include "text/normalizer.h"

#include <utility>

#include "base/json.h"
#include "base/strings.h"

namespace octavo {
namespace {

Error too_large(std::size_t limit) {
  return Error("a text would grow to more than " + std::to_string(limit) +
               " bytes by the tokenizer's replacements and prefixes, which no model's are made for");
}

Result<std::string> replace_matches(std::string_view text, const Regex& regex, std::string_view with,
                                    std::size_t limit) {
  RegexSearch search(regex);
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = 0; at <= text.size();) {
    OCTAVO_TRY(const auto match, search.find(text, at));
    if (!match) break;
    out.append(text.substr(copied, match->begin - copied)).append(with);
    if (out.size() > limit) return too_large(limit);
    copied = match->end;
    at = match->end;
    if (match->end > match->begin) continue;
    if (at == text.size()) break;
    at += utf8_length(text[at]);
  }
  return out.append(text.substr(copied));
}

}  // namespace

Result<std::string> replace_all(std::string_view text, std::string_view what, std::string_view with,
                                std::size_t limit) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(what, at)) != std::string_view::npos; at = found + what.size()) {
    out.append(text.substr(at, found - at)).append(with);
    if (out.size() > limit) return too_large(limit);
  }
  return out.append(text.substr(at));
}

Result<Pattern> pattern_from_json(const Json& owner, std::string_view owner_name) {
  const Json* pattern = find_member(owner, "pattern");
  if (pattern == nullptr || !pattern->is_object()) return Error(std::string(owner_name) + " has no pattern");
  OCTAVO_TRY(const auto literal, find_string(*pattern, "String"));
  OCTAVO_TRY(const auto regex, find_string(*pattern, "Regex"));
  if (literal && !literal->empty()) return Pattern{*literal, std::nullopt};
  if (!regex) return Error("the pattern of " + std::string(owner_name) + " is neither a String nor a Regex");
  OCTAVO_TRY(Regex compiled, Regex::compile(*regex));
  return Pattern{"", std::move(compiled)};
}

void TextNormalizer::add(Form step) { steps_.push_back({step, {}, {}}); }
void TextNormalizer::add(Prepend step) { steps_.push_back({{}, std::move(step), {}}); }
void TextNormalizer::add(Replace step) { steps_.push_back({{}, {}, std::move(step)}); }

Result<TextNormalizer> TextNormalizer::from_json(const Json* normalizer) {
  TextNormalizer result;
  if (normalizer != nullptr) OCTAVO_TRY(result.add_json(*normalizer, 0));
  return result;
}

Status TextNormalizer::add_json(const Json& normalizer, int depth) {
  OCTAVO_TRY(const std::string type, get_string(normalizer, "type").in("normalizer"));
  if (steps_.size() == kMaxParts) return Error("the normalizer has more than " + std::to_string(kMaxParts) + " parts");
  for (const UnicodeForm form : {UnicodeForm::nfc, UnicodeForm::nfd, UnicodeForm::nfkc, UnicodeForm::nfkd}) {
    if (type == form_name(form)) return add(Form{form}), Status();
  }
  if (type == "Prepend") {
    OCTAVO_TRY(std::string text, get_string(normalizer, "prepend").in("normalizer Prepend"));
    return add(Prepend{std::move(text)}), Status();
  }
  if (type == "Replace") {
    OCTAVO_TRY(Pattern pattern, pattern_from_json(normalizer, "normalizer Replace"));
    OCTAVO_TRY(std::string content, get_string(normalizer, "content").in("normalizer Replace"));
    return add(Replace{std::move(pattern.literal), std::move(pattern.regex), std::move(content)}), Status();
  }
  if (type != "Sequence")
    return Error("the normalizer " + in_quotes(type) +
                     " is not supported (NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence are)",
                 ErrorKind::unsupported);
  const Json* parts = find_member(normalizer, "normalizers");
  if (parts == nullptr || !parts->is_array() || depth == kMaxSequenceDepth)
    return Error("normalizer Sequence has no usable list of normalizers");
  for (const Json& part : *parts) OCTAVO_TRY(add_json(part, depth + 1));
  return {};
}

Result<std::string> TextNormalizer::apply(std::string_view valid, bool continues) const {
  std::string text(valid);
  const std::size_t limit = grown_limit(valid.size());
  for (const Step& step : steps_) {
    if (step.form) text = normalize(text, step.form->form);
    if (step.prepend && !continues && !text.empty()) text.insert(0, step.prepend->text);
    if (text.size() > limit) return too_large(limit);
    if (!step.replace) continue;
    if (step.replace->regex) {
      OCTAVO_TRY(text, replace_matches(text, *step.replace->regex, step.replace->content, limit));
    } else {
      OCTAVO_TRY(text, replace_all(text, step.replace->literal, step.replace->content, limit));
    }
  }
  return text;
}

std::string TextNormalizer::description() const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    if (step.form) names.emplace_back(form_name(step.form->form));
    if (step.prepend) names.push_back("prepends " + in_quotes(step.prepend->text));
    if (step.replace)
      names.push_back(step.replace->regex
                          ? "replaces by expression"
                          : in_quotes(step.replace->literal) + " becomes " + in_quotes(step.replace->content));
  }
  return join(names, ", ");
}

}  // namespace octavo
