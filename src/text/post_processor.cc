#include "text/post_processor.h"

#include <limits>
#include <string>

#include "base/json.h"
#include "base/shown.h"
#include "base/strings.h"
#include "text/normalizer.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxAround = 4096;

Result<std::vector<std::int32_t>> ids_of(const Json* known, const std::string& name) {
  const Json* token = known == nullptr ? nullptr : find_member(*known, name);
  const Json* list = token == nullptr ? nullptr : find_member(*token, "ids");
  const Error error("post_processor TemplateProcessing has no ids for its special token " + in_quotes(name));
  if (list == nullptr || !list->is_array()) return error;
  std::vector<std::int32_t> ids;
  for (const Json& id : *list) {
    const bool fits = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
    if (!fits) return error;
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

// "single": special tokens and the text, called A, once.
Result<PostProcessor> read_template(const Json& json) {
  const Json* single = find_member(json, "single");
  if (single == nullptr || !single->is_array()) return Error("post_processor TemplateProcessing has no list `single`");
  PostProcessor result;
  bool behind = false;
  for (const Json& part : *single) {
    if (const Json* sequence = find_member(part, "Sequence"); sequence != nullptr) {
      OCTAVO_TRY(const std::string id, get_string(*sequence, "id").in("post_processor TemplateProcessing"));
      if (behind || id != "A")
        return Error("post_processor TemplateProcessing uses the text more than once, which is not supported",
                     ErrorKind::unsupported);
      behind = true;
      continue;
    }
    const Json* special = find_member(part, "SpecialToken");
    if (special == nullptr) return Error("post_processor TemplateProcessing has the unknown part " + shown(part));
    OCTAVO_TRY(const std::string name, get_string(*special, "id").in("post_processor TemplateProcessing"));
    OCTAVO_TRY(const auto ids, ids_of(find_member(json, "special_tokens"), name));
    auto& side = behind ? result.suffix : result.prefix;
    side.insert(side.end(), ids.begin(), ids.end());
    if (side.size() > kMaxAround)
      return Error("post_processor TemplateProcessing puts more than " + std::to_string(kMaxAround) +
                   " tokens around a text");
  }
  if (!behind) return Error("post_processor TemplateProcessing leaves the text out");
  return result;
}

Status apply(const Json& json, PostProcessor& result, int depth) {
  OCTAVO_TRY(const std::string type, get_string(json, "type").in("post_processor"));
  if (type == "ByteLevel") return {};  // it only corrects offsets
  if (type == "TemplateProcessing") {
    OCTAVO_TRY(const PostProcessor outer, read_template(json));
    result.prefix.insert(result.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
    result.suffix.insert(result.suffix.end(), outer.suffix.begin(), outer.suffix.end());
    return {};
  }
  if (type != "Sequence")
    return Error(
        "the post_processor " + in_quotes(type) + " is not supported (TemplateProcessing, ByteLevel, Sequence are)",
        ErrorKind::unsupported);
  const Json* parts = find_member(json, "processors");
  if (parts == nullptr || !parts->is_array() || depth == kMaxSequenceDepth)
    return Error("post_processor Sequence has no usable list of processors");
  for (const Json& part : *parts) OCTAVO_TRY(apply(part, result, depth + 1));
  return {};
}

}  // namespace

Result<PostProcessor> PostProcessor::from_json(const Json* post_processor) {
  PostProcessor result;
  if (post_processor != nullptr) OCTAVO_TRY(apply(*post_processor, result, 0));
  return result;
}

}  // namespace octavo
