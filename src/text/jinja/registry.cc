#include "text/jinja/registry.h"

#include <array>
#include <vector>

#include "base/strings.h"

namespace octavo::jinja {
namespace {

std::array<std::span<const FilterRow>, 4> all_filters() {
  return {text_filters(), number_filters(), sequence_filters(), selecting_filters()};
}

std::string unknown(const char* what, std::string_view name, const std::vector<std::string>& names) {
  std::string sentence = std::string("unknown ") + what + " '" + std::string(name.substr(0, 80)) + "'";
  if (const auto close = nearest(name.substr(0, 80), names)) sentence += " (did you mean '" + *close + "'?)";
  return sentence;
}

}  // namespace

FilterFunction find_filter(std::string_view name) {
  for (const auto& rows : all_filters())
    for (const FilterRow& row : rows)
      if (row.name == name) return row.function;
  return nullptr;
}

TestFunction find_test(std::string_view name) {
  for (const TestRow& row : tests())
    if (row.name == name) return row.function;
  return nullptr;
}

std::string unknown_filter(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& rows : all_filters())
    for (const FilterRow& row : rows) names.emplace_back(row.name);
  return unknown("filter", name, names);
}

std::string unknown_test(std::string_view name) {
  std::vector<std::string> names;
  for (const TestRow& row : tests()) names.emplace_back(row.name);
  return unknown("test", name, names);
}

}  // namespace octavo::jinja
