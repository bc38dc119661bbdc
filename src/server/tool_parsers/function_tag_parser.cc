#include "server/tool_parsers/function_tag_parser.h"

#include <algorithm>

namespace octavo {
namespace {

constexpr std::string_view kFunctionTag = "<function=";
constexpr std::string_view kParameterTag = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::size_t kMaxNameBytes = 256;

// The types that a schema allows, "string", "integer", ...; none: it does not say.
std::vector<std::string> schema_types(const OrderedJson& schema) {
  std::vector<std::string> types;
  if (!schema.is_object()) return types;
  const auto type = schema.find("type");
  if (type != schema.end() && type->is_string()) types.push_back(type->get<std::string>());
  if (type != schema.end() && type->is_array())
    for (const OrderedJson& one : *type)
      if (one.is_string()) types.push_back(one.get<std::string>());
  for (const char* key : {"anyOf", "oneOf"}) {
    const auto choices = schema.find(key);
    if (choices == schema.end() || !choices->is_array()) continue;
    for (const OrderedJson& choice : *choices) {
      const auto one = choice.is_object() ? choice.find("type") : choice.end();
      types.push_back(one != choice.end() && one->is_string() ? one->get<std::string>() : "object");
    }
  }
  if (types.empty() && schema.contains("$ref")) types.emplace_back("object");
  return types;
}

// Where in a value's text that begins at `from` its end tag, with the line break before it, may have begun.
std::size_t known_text(std::string_view piece, std::size_t from) {
  const std::size_t longest = kParameterEnd.size() + 1;
  for (std::size_t at = std::max(from, piece.size() - std::min(piece.size(), longest)); at < piece.size(); ++at) {
    const std::string_view rest = piece.substr(at);
    const std::string_view tag = rest.substr(rest[0] == '\n' ? 1 : 0);
    if (kParameterEnd.starts_with(tag)) return at;
  }
  return piece.size();
}

}  // namespace

FunctionTagParser::FunctionTagParser(std::shared_ptr<const OrderedJson> tools, bool inside)
    : tools_(std::move(tools)), at_(inside ? At::name : At::tag) {}

CallParser::Verdict FunctionTagParser::feed(char c) {
  switch (at_) {
    case At::tag:
      return read_tag(c);
    case At::name:
      return read_name(c, call_.name, At::tag);
    case At::key: {
      const Verdict verdict = read_name(c, key_, At::value);
      if (at_ == At::value) begin_value();
      return verdict;
    }
    case At::value:
      break;
  }
  piece_ += c;
  if (piece_.ends_with(kParameterEnd)) end_value();
  return Verdict::more;
}

void FunctionTagParser::begin_value() {
  types_.clear();
  const OrderedJson* tool = find_tool(tools_.get(), call_.name);
  if (tool != nullptr && tool->contains("parameters") && (*tool)["parameters"].is_object()) {
    const OrderedJson& schema = (*tool)["parameters"];
    if (schema.contains("properties") && schema["properties"].is_object() && schema["properties"].contains(key_))
      types_ = schema_types(schema["properties"][key_]);
  }
  is_text_ = types_.empty() || (allows("string") && !allows("null"));
  shown_ = 0;
  call_.arguments += (std::exchange(begun_, true) ? ", " : "{") + to_text(OrderedJson(key_)) + ": ";
  if (is_text_) call_.arguments += '"';
}

// A line break next to a tag is the tag's.
void FunctionTagParser::end_value() {
  std::size_t end = piece_.size() - kParameterEnd.size();
  if (shown_ == 0 && piece_.starts_with('\n') && end > 0) shown_ = 1;
  if (end > shown_ && piece_[end - 1] == '\n') --end;
  if (is_text_) {
    show_text(end);
    call_.arguments += '"';
  } else {
    call_.arguments += json_value(piece_.substr(shown_, end - shown_));
  }
  piece_.clear();
  at_ = At::tag;
}

void FunctionTagParser::show_text(std::size_t end) {
  const std::string quoted = to_text(OrderedJson(piece_.substr(shown_, end - shown_)));
  call_.arguments += std::string_view(quoted).substr(1, quoted.size() - 2);
  shown_ = end;
}

ParsedCall* FunctionTagParser::call() {
  if (!begun_) return nullptr;
  if (at_ != At::value || !is_text_) return &call_;
  if (shown_ == 0 && piece_.starts_with('\n')) shown_ = 1;
  const std::size_t known = known_text(piece_, shown_);
  if (known > shown_) show_text(known);
  return &call_;
}

CallParser::Verdict FunctionTagParser::read_tag(char c) {
  if (piece_.empty() && (c == ' ' || c == '\n' || c == '\t' || c == '\r')) return Verdict::more;
  piece_ += c;
  if (named_ && piece_ == kFunctionEnd) {
    call_.arguments += std::exchange(begun_, true) ? "}" : "{}";
    call_.whole = true;
    return Verdict::call;
  }
  const std::string_view begin = named_ ? kParameterTag : kFunctionTag;
  if (piece_ == begin) {
    at_ = named_ ? At::key : At::name;
    piece_.clear();
    return Verdict::more;
  }
  return begin.starts_with(piece_) || (named_ && kFunctionEnd.starts_with(piece_)) ? Verdict::more : Verdict::text;
}

CallParser::Verdict FunctionTagParser::read_name(char c, std::string& name, At then) {
  if (c != '>') {
    piece_ += c;
    return c == '<' || c == '\n' || piece_.size() > kMaxNameBytes ? Verdict::text : Verdict::more;
  }
  if (piece_.empty()) return Verdict::text;
  name = std::exchange(piece_, {});
  named_ = true;
  at_ = then;
  return Verdict::more;
}

std::string FunctionTagParser::json_value(const std::string& text) const {
  if (allows("string") && text != "null") return to_text(OrderedJson(text));
  if (allows("boolean") && (text == "True" || text == "False")) return text == "True" ? "true" : "false";
  if (parse_ordered_json(text, "")) return text;
  return to_text(OrderedJson(text));
}

bool FunctionTagParser::allows(const char* type) const {
  return std::find(types_.begin(), types_.end(), type) != types_.end();
}

}  // namespace octavo
