// Reading the `decoder` of tokenizer.json.
#include "base/json.h"
#include "base/strings.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace octavo {
namespace {

constexpr std::int64_t kMaxStrip = 1024;

Error refused(const std::string& type, const std::string& why) {
  return Error("the decoder " + in_quotes(type) + " " + why, ErrorKind::unsupported);
}

}  // namespace

Result<Decoder> Decoder::from_json(const Json* decoder) {
  Decoder result;
  if (decoder == nullptr) {
    result.separator_ = " ";
    return result;
  }
  OCTAVO_TRY(result.add_json(*decoder, 0));
  return result;
}

Status Decoder::add_json(const Json& json, int depth) {
  OCTAVO_TRY(const std::string type, get_string(json, "type").in("decoder"));
  if (type == "Sequence") {
    const Json* parts = find_member(json, "decoders");
    if (parts == nullptr || !parts->is_array() || depth == kMaxSequenceDepth)
      return Error("decoder Sequence has no usable list of decoders");
    for (const Json& part : *parts) OCTAVO_TRY(add_json(part, depth + 1));
    return {};
  }
  if (steps_.size() == kMaxParts) return Error("the decoder has more than " + std::to_string(kMaxParts) + " parts");
  if (type == "Fuse") return fused_ = true, Status();
  if (type == "Strip") return add_strip(json);
  // The rest works on single tokens, so nothing may have joined them before.
  if (fused_ || byte_fallback_ || byte_level_)
    return refused(type, "stands behind one that joins tokens, which is not supported");
  if (type == "ByteFallback") {
    byte_fallback_ = true;
  } else if (type == "ByteLevel") {
    if (!steps_.empty()) return refused(type, "stands behind another one, which is not supported");
    byte_level_ = true;
  } else if (type == "Replace") {
    OCTAVO_TRY(Pattern pattern, pattern_from_json(json, "decoder Replace"));
    if (pattern.regex) return refused(type, "has a Regex, which is not supported");
    OCTAVO_TRY(std::string content, get_string(json, "content").in("decoder Replace"));
    steps_.push_back({Step::Kind::replace, pattern.literal, content, 0, 0, false});
  } else if (type == "Metaspace") {
    OCTAVO_TRY(const std::string mark, get_string(json, "replacement").in("decoder Metaspace"));
    OCTAVO_TRY(const auto scheme, find_string(json, "prepend_scheme"));
    OCTAVO_TRY(const auto add_prefix, find_bool(json, "add_prefix_space"));
    if (mark.empty()) return Error("decoder Metaspace has an empty replacement");
    const bool drops = scheme ? *scheme != "never" : add_prefix.value_or(true);
    first_differs_ = first_differs_ || drops;
    steps_.push_back({Step::Kind::metaspace, mark, " ", 0, 0, drops});
  } else {
    return refused(type, "is not supported (ByteLevel, ByteFallback, Replace, Fuse, Strip, Metaspace, Sequence are)");
  }
  return {};
}

// On single tokens; or, behind Fuse, on the beginning of the whole text.
Status Decoder::add_strip(const Json& json) {
  OCTAVO_TRY(const std::string content, get_string(json, "content").in("decoder Strip"));
  OCTAVO_TRY(const std::int64_t start, get_int(json, "start").in("decoder Strip"));
  OCTAVO_TRY(const std::int64_t stop, get_int(json, "stop").in("decoder Strip"));
  if (content.empty() || utf8_length(content[0]) != content.size())
    return Error("decoder Strip has a content that is not one character");
  if (start < 0 || stop < 0 || start > kMaxStrip || stop > kMaxStrip)
    return Error("decoder Strip has a start or stop outside 0 to " + std::to_string(kMaxStrip));
  if (byte_level_) return refused("Strip", "stands behind ByteLevel, which is not supported");
  if (!fused_) {
    if (byte_fallback_) return refused("Strip", "stands between ByteFallback and Fuse, which is not supported");
    steps_.push_back(
        {Step::Kind::strip, content, "", static_cast<std::size_t>(start), static_cast<std::size_t>(stop), false});
    return {};
  }
  if (stop > 0) return refused("Strip", "removes characters from the end of the text, which is not supported");
  if (strip_max_ > 0) return refused("Strip", "stands behind Fuse twice, which is not supported");
  strip_ = content;
  strip_max_ = static_cast<std::size_t>(start);
  return {};
}

}  // namespace octavo
