// The filters and tests that exist, found by name when a template is parsed.
//
// Each group of filters stands in a file of its own with its table; nothing registers itself. A name that is not found
// is an error with the nearest name, raised by names.cc or, inside a condition, when it runs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/jinja/arguments.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

class Interpreter;

using FilterFunction = Value (*)(Interpreter& in, const Value& input, Arguments& arguments);
using TestFunction = bool (*)(Interpreter& in, const Value& input, Arguments& arguments);

struct FilterRow {
  std::string_view name;
  FilterFunction function;
};

struct TestRow {
  std::string_view name;
  TestFunction function;
};

FilterFunction find_filter(std::string_view name);  // null: there is none
TestFunction find_test(std::string_view name);
std::string unknown_filter(std::string_view name);  // the sentence, with the nearest name
std::string unknown_test(std::string_view name);

// One table a file; registry.cc reads them all.
std::span<const FilterRow> text_filters();
std::span<const FilterRow> number_filters();
std::span<const FilterRow> sequence_filters();
std::span<const FilterRow> selecting_filters();
std::span<const TestRow> tests();

}  // namespace octavo::jinja
