#include <functional>
#include <memory>

#include "text/jinja/attribute_path.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/registry.h"

namespace octavo::jinja {
namespace {

// A generator over `input` that is made element by element, as Python's are: what is not asked for is not computed.
Value walk(Interpreter& in, const Value& input, const Arguments& arguments, std::function<bool(Value&)> accept) {
  auto cursor = std::make_shared<std::unique_ptr<Cursor>>();
  const Value source = truth(input) ? input : make_list(in.budget(), {});
  Value generator = make_generator(in.budget(), source, [cursor, source, accept = std::move(accept), &in](Value& item) {
    const DepthGuard depth(in.budget());
    if (!*cursor) *cursor = std::make_unique<Cursor>(source, in.budget());
    while ((*cursor)->next(item))
      if (accept(item)) return true;
    return false;
  });
  for (const Value& value : arguments.positional) hold(*generator.object(), value);
  for (const auto& [name, value] : arguments.named) hold(*generator.object(), value);
  return generator;
}

const std::string& name_of(const Value& value, const char* what) {
  if (!value.is_string()) fail(std::string("the name of a ") + what + " must be a string");
  return value.text();
}

// The arguments behind the first `count`.
Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count), arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value map(Interpreter& in, const Value& input, Arguments& arguments) {
  if (!arguments.positional.empty()) {
    return walk(in, input, arguments, [&in, arguments](Value& item) {
      const std::string& name = name_of(arguments.positional[0], "filter");
      const FilterFunction filter = find_filter(name);
      if (!filter) fail(unknown_filter(name));
      Arguments rest = without_first(arguments, 1);
      item = filter(in, item, rest);
      return true;
    });
  }
  const Arguments kept = arguments;
  const Bound bound("filter 'map'", arguments, {"attribute", "default"}, 1);
  return walk(in, input, kept, [&in, path = AttributePath(bound.at(0)), fallback = bound.value(1)](Value& item) {
    item = path.of(item, in, fallback);
    return true;
  });
}

// select, reject, selectattr, rejectattr: with a test by name, or by truth.
Value select_if(Interpreter& in, const Value& input, const Arguments& arguments, bool wanted, bool by_attribute) {
  const std::size_t offset = by_attribute ? 1 : 0;
  if (arguments.positional.size() < offset) fail("filters 'selectattr' and 'rejectattr' need the name of an attribute");
  const AttributePath path(by_attribute ? arguments.positional[0] : Value());
  return walk(in, input, arguments, [&in, arguments, path, wanted, offset](Value& item) {
    const Value value = path.of(item, in);
    if (arguments.positional.size() == offset) return truth(value) == wanted;
    const std::string& name = name_of(arguments.positional[offset], "test");
    const TestFunction test = find_test(name);
    if (!test) fail(unknown_test(name));
    Arguments rest = without_first(arguments, offset + 1);
    return test(in, value, rest) == wanted;
  });
}

Value select(Interpreter& in, const Value& input, Arguments& arguments) {
  return select_if(in, input, arguments, true, false);
}
Value reject(Interpreter& in, const Value& input, Arguments& arguments) {
  return select_if(in, input, arguments, false, false);
}
Value selectattr(Interpreter& in, const Value& input, Arguments& arguments) {
  return select_if(in, input, arguments, true, true);
}
Value rejectattr(Interpreter& in, const Value& input, Arguments& arguments) {
  return select_if(in, input, arguments, false, true);
}

constexpr FilterRow kSelectingFilters[] = {
    {"map", map}, {"reject", reject}, {"rejectattr", rejectattr}, {"select", select}, {"selectattr", selectattr}};

}  // namespace

std::span<const FilterRow> selecting_filters() { return kSelectingFilters; }

}  // namespace octavo::jinja
