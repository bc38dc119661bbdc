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

}  // namespace

FunctionTagParser::FunctionTagParser(std::shared_ptr<const OrderedJson> tools, bool inside)
    : tools_(std::move(tools)), at_(inside ? At::name : At::tag) {}

CallParser::Verdict FunctionTagParser::feed(char c) {
  switch (at_) {
    case At::tag:
      return read_tag(c);
    case At::name:
      return read_name(c, name_, At::tag);
    case At::key:
      return read_name(c, key_, At::value);
    case At::value:
      break;
  }
  piece_ += c;
  if (!piece_.ends_with(kParameterEnd)) return Verdict::more;
  piece_.resize(piece_.size() - kParameterEnd.size());
  if (piece_.starts_with('\n')) piece_.erase(0, 1);
  if (piece_.ends_with('\n')) piece_.pop_back();
  members_ += (members_.empty() ? "" : ", ") + to_text(OrderedJson(key_)) + ": " + json_value(piece_);
  piece_.clear();
  at_ = At::tag;
  return Verdict::more;
}

CallParser::Verdict FunctionTagParser::read_tag(char c) {
  if (piece_.empty() && (c == ' ' || c == '\n' || c == '\t' || c == '\r')) return Verdict::more;
  piece_ += c;
  if (named_ && piece_ == kFunctionEnd) return Verdict::call;
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
  const OrderedJson* tool = find_tool(tools_.get(), name_);
  std::vector<std::string> types;
  if (tool != nullptr && tool->contains("parameters") && (*tool)["parameters"].is_object()) {
    const OrderedJson& schema = (*tool)["parameters"];
    if (schema.contains("properties") && schema["properties"].is_object() && schema["properties"].contains(key_))
      types = schema_types(schema["properties"][key_]);
  }
  const auto allows = [&](const char* type) { return std::find(types.begin(), types.end(), type) != types.end(); };
  if (types.empty() || (allows("string") && !(allows("null") && text == "null"))) return to_text(OrderedJson(text));
  if (allows("boolean") && (text == "True" || text == "False")) return text == "True" ? "true" : "false";
  if (parse_ordered_json(text, "")) return text;
  return to_text(OrderedJson(text));
}

ParsedCall FunctionTagParser::call() { return {"", std::move(name_), "{" + members_ + "}"}; }

}  // namespace octavo
