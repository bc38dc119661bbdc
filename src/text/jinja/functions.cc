#include "text/jinja/functions.h"

#include <algorithm>
#include <ctime>

#include "text/jinja/interpreter.h"
#include "text/jinja/render.h"

namespace octavo::jinja {
namespace {

constexpr std::size_t kMaxRange = 100'000;  // as Jinja's sandbox

Value make_range(Interpreter& in, Arguments& arguments) {
  const std::size_t num_given = arguments.positional.size();
  const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
  auto range = make_object<Range>(in.budget(), 0);
  const auto whole = [&](std::size_t i) { return Int{clamp_index(bound.whole(i))}; };
  range->start = num_given > 1 ? whole(0) : 0;
  range->stop = whole(num_given > 1 ? 1 : 0);
  range->step = num_given > 2 ? whole(2) : 1;
  if (range->step == 0) fail("the step of a range must not be zero");
  if (range->size() > kMaxRange) fail("a range has more than " + std::to_string(kMaxRange) + " numbers");
  return Value(Kind::range, std::move(range));
}

std::vector<std::pair<Value, Value>> dict_entries(Interpreter& in, Arguments& arguments, const char* callee) {
  if (arguments.positional.size() > 1) fail(std::string(callee) + " takes at most one argument without a name");
  std::vector<std::pair<Value, Value>> entries;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::dict)) {
      entries = source.as<Dict>().entries;
    } else {
      for (const Value& pair : to_items(source, in.budget())) {
        std::vector<Value> parts = to_items(pair, in.budget());
        if (parts.size() != 2) fail(std::string(callee) + " needs pairs of a key and a value");
        entries.emplace_back(std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  for (auto& [name, value] : arguments.named) entries.emplace_back(in.text(name), std::move(value));
  return entries;
}

Value make_dict_value(Interpreter& in, Arguments& arguments) {
  return make_dict(in.budget(), dict_entries(in, arguments, "dict"));
}

Value make_namespace(Interpreter& in, Arguments& arguments) {
  std::vector<std::pair<Value, Value>> entries = dict_entries(in, arguments, "namespace");
  auto space = make_object<Namespace>(in.budget(), 0);
  for (auto& [key, value] : entries) {
    if (!key.is_string()) fail("the keys of a namespace must be strings");
    space->set(key.text(), std::move(value));
  }
  in.keep(space);
  return Value(Kind::name_space, std::move(space));
}

Value make_cycler(Interpreter& in, Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) fail("cycler needs one value or more, without names");
  auto cycler = make_object<Cycler>(in.budget(), arguments.positional.size() * sizeof(Value));
  for (const Value& item : arguments.positional) hold(*cycler, item);
  cycler->items = std::move(arguments.positional);
  return Value(Kind::cycler, std::move(cycler));
}

Value make_joiner(Interpreter& in, Arguments& arguments) {
  const Bound bound("joiner", arguments, {"sep"}, 0);
  auto joiner = make_object<Joiner>(in.budget(), 0);
  joiner->separator = bound.has(0) ? bound.at(0) : in.text(", ");
  hold(*joiner, joiner->separator);
  return Value(Kind::joiner, std::move(joiner));
}

Value raise_exception(Interpreter& in, Arguments& arguments) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw Failure{to_text(bound.at(0), in.budget()), 0, true};
}

// datetime.now().strftime(format): the time of day has no zone, and no fraction worth showing.
Value strftime_now(Interpreter& in, Arguments& arguments) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string& format = bound.text(0);
  TextBuilder out(in.budget());
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      out.append(format.substr(at, 1));
      continue;
    }
    std::size_t end = at + 1;
    if (std::string_view("-_0^#").find(format[end]) != std::string_view::npos && end + 1 < format.size()) ++end;
    const char code = format[end];
    if (std::string_view("aAbBcdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYC%fzZ").find(code) == std::string_view::npos)
      fail("strftime_now does not know the format '%" + std::string(1, code) + "'");
    if (code == 'f') {
      out.append("000000");
    } else if (code != 'z' && code != 'Z') {
      char buffer[128];
      const std::size_t size = std::strftime(buffer, sizeof buffer, format.substr(at, end - at + 1).c_str(), &in.now());
      out.append(std::string_view(buffer, size));
    }
    at = end;
  }
  return in.text(out.take());
}

constexpr FunctionRow kFunctions[] = {
    {"range", make_range},          {"dict", make_dict_value}, {"namespace", make_namespace},
    {"cycler", make_cycler},        {"joiner", make_joiner},   {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

const FunctionRow* find_function(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const auto& r) { return r.name == name; });
  return row == std::end(kFunctions) ? nullptr : row;
}

Value make_function(Budget& budget, const FunctionRow& row) {
  auto function = make_object<Function>(budget, 0);
  function->row = &row;
  return Value(Kind::function, std::move(function));
}

}  // namespace octavo::jinja
