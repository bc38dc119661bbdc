#include "text/jinja/attribute_path.h"

#include "text/jinja/code_points.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/literal.h"

namespace octavo::jinja {

AttributePath::AttributePath(const Value& path) {
  if (path.is_none()) return;
  if (!path.is_string()) {
    steps_.push_back(path);
    return;
  }
  const std::string& text = path.text();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    const std::optional<Int> index = digits ? parse_python_int(part, 10) : std::nullopt;
    steps_.push_back(index ? Value(*index) : make_constant_text(part));
    begin = end + 1;
  }
}

Value AttributePath::of(const Value& element, Interpreter& in, const Value& fallback) const {
  Value value = element;
  for (const Value& step : steps_) {
    value = in.item(value, step);
    if (value.is_undefined() && !fallback.is_none()) value = fallback;
  }
  return value;
}

std::vector<AttributePath> AttributePath::several(const Value& paths) {
  std::vector<AttributePath> all;
  if (!paths.is_string()) {
    all.emplace_back(paths);
    return all;
  }
  const std::string& text = paths.text();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    all.emplace_back(make_constant_text(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return all;
}

Value without_case(const Value& value, Interpreter& in) {
  return value.is_string() ? in.text(to_lower(value.text())) : value;
}

}  // namespace octavo::jinja
