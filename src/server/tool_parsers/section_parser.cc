#include "server/tool_parsers/section_parser.h"

#include "base/strings.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxHeadBytes = 512;

}  // namespace

CallParser::Verdict SectionParser::feed(char c) {
  if (awaits_begin_) return read_begin(c);
  if (separator_ < rules_.separators.size()) return read_head(c);
  if (arguments_.empty() && is_json_space(c)) return Verdict::more;
  switch (arguments_.feed(c)) {
    case JsonObjectScanner::Verdict::more:
      return Verdict::more;
    case JsonObjectScanner::Verdict::invalid:
      return Verdict::text;
    case JsonObjectScanner::Verdict::complete:
      break;
  }
  call_.whole = true;
  return Verdict::call;
}

ParsedCall* SectionParser::call() {
  if (arguments_.empty()) return nullptr;
  call_.arguments += std::string_view(arguments_.text()).substr(taken_);
  taken_ = arguments_.text().size();
  return &call_;
}

CallParser::Verdict SectionParser::read_begin(char c) {
  if (piece_.empty() && is_json_space(c)) return Verdict::more;
  piece_ += c;
  if (!std::string_view(rules_.call_begin).starts_with(piece_)) return Verdict::text;
  if (piece_ == rules_.call_begin) {
    awaits_begin_ = false;
    piece_.clear();
  }
  return Verdict::more;
}

CallParser::Verdict SectionParser::read_head(char c) {
  const std::string& separator = rules_.separators[separator_];
  piece_ += c;
  if (!piece_.ends_with(separator)) return piece_.size() > kMaxHeadBytes ? Verdict::text : Verdict::more;
  piece_.resize(piece_.size() - separator.size());
  const bool last = ++separator_ == rules_.separators.size();
  if (last && !read_name()) return Verdict::text;
  piece_.clear();
  return Verdict::more;
}

bool SectionParser::read_name() {
  std::string_view name = trim(piece_);
  if (rules_.numbered) {
    call_.id = name;
    constexpr std::string_view kPrefix = "functions.";
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) name = name.substr(0, colon);
  }
  call_.name = name;
  return !name.empty() && name.find_first_of("\n<") == std::string_view::npos;
}

}  // namespace octavo
