#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/json.h"

namespace octavo {
namespace {

std::vector<OrderedJson> read_lines(const std::string& path) {
  std::istringstream text(*read_file(path));
  std::vector<OrderedJson> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(*parse_ordered_json(line, path));
  return lines;
}

std::string fixture(const std::string& name) { return std::string(OCTAVO_SOURCE_DIR) + "/tests/fixtures/unit/" + name; }

Result<std::string> render(const std::string& source, const OrderedJson& variables = OrderedJson::object(),
                           const TemplateLimits& limits = {}, const std::optional<std::tm>& now = {}) {
  OCTAVO_TRY(const ChatTemplate parsed, ChatTemplate::parse(source));
  return parsed.render(variables, limits, now);
}

std::string error_of(const std::string& source, const TemplateLimits& limits = {}) {
  const Result<std::string> result = render(source, OrderedJson::object(), limits);
  return result ? "no error, but: " + result->substr(0, 100) : result.error().message();
}

std::tm local_time(const std::string& text) {
  std::tm time{};
  strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  time.tm_wday = time.tm_yday = 0;  // the template works them out
  return time;
}

TEST(ChatTemplate, RendersEveryFeatureAsJinjaDoes) {
  for (const OrderedJson& line : read_lines(fixture("template_features.jsonl"))) {
    SCOPED_TRACE(line.at("name").get<std::string>());
    const auto result = render(line.at("template").get<std::string>(), line.at("vars"), {},
                               local_time(line.at("now").get<std::string>()));
    if (line.contains("rendered")) {
      ASSERT_TRUE(result) << result.error().message();
      EXPECT_EQ(*result, line.at("rendered").get<std::string>());
    } else {
      ASSERT_FALSE(result) << *result;
      EXPECT_NE(result.error().message().find(line.at("error").get<std::string>()), std::string::npos)
          << result.error().message();
      EXPECT_EQ(result.error().kind(), ErrorKind::invalid);
    }
  }
}

TEST(ChatTemplate, RendersOrRefusesTwoThousandCasesAsJinjaDoes) {
  for (const OrderedJson& line : read_lines(fixture("template_cases.jsonl"))) {
    const std::string source = line.at("template").get<std::string>();
    SCOPED_TRACE(line.at("name").get<std::string>() + ": " + source);
    const auto result = render(source, line.value("vars", OrderedJson::object()));
    if (line.contains("rendered")) {
      EXPECT_TRUE(result) << result.error().message();
      EXPECT_EQ(result ? *result : "", line.at("rendered").get<std::string>());
    } else {
      EXPECT_FALSE(result) << "Jinja says " << line.at("message") << ", but this gave " << *result;
    }
  }
}

// The vendors' templates and chats lie outside of the repository.
TEST(ChatTemplate, RendersVendorsChats) {
  const char* root = std::getenv("OCTAVO_FIXTURES");
  const std::string folder = root ? std::string(root) + "/tokenizers" : "";
  if (!root || !directory_exists(folder)) {
    std::cout << "72 cases not run: set OCTAVO_FIXTURES\n";
    return;
  }
  int num_cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string cases = entry.path().string() + "/chat_cases.jsonl";
    if (!file_exists(cases)) continue;
    const auto config =
        parse_ordered_json(*read_file(entry.path().string() + "/tokenizer_config.json"), "tokenizer_config.json");
    const OrderedJson& stored = config->at("chat_template");
    const std::string source = (stored.is_string() ? stored : stored.at(0).at("template")).get<std::string>();
    const auto parsed = ChatTemplate::parse(source);
    ASSERT_TRUE(parsed) << parsed.error().message();
    for (const OrderedJson& line : read_lines(cases)) {
      SCOPED_TRACE(entry.path().string() + ": " + line.at("label").get<std::string>());
      OrderedJson variables = line.at("special");
      for (const char* name : {"messages", "tools", "add_generation_prompt"}) variables[name] = line.at(name);
      if (line.contains("template_kwargs")) variables.update(line.at("template_kwargs"));
      const auto result = parsed->render(variables);
      ++num_cases;
      if (line.contains("rendered")) {
        ASSERT_TRUE(result) << result.error().message();
        EXPECT_EQ(*result, line.at("rendered").get<std::string>());
      } else {
        ASSERT_FALSE(result);
        EXPECT_EQ(result.error().message(), line.at("error").get<std::string>());
      }
    }
  }
  EXPECT_GE(num_cases, 72);
}

TEST(ChatTemplate, RendersTheDefaultModelsChats) {
  const auto parsed = ChatTemplate::parse(*read_file(fixture("default_model_template.jinja")));
  ASSERT_TRUE(parsed) << parsed.error().message();
  for (const OrderedJson& line : read_lines(fixture("default_model_chats.jsonl"))) {
    const auto result = parsed->render({{"messages", line.at("messages")}, {"add_generation_prompt", true}});
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(*result, line.at("rendered").get<std::string>());
  }
}

TEST(ChatTemplate, NamesLineAndConstruct) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\nb\n{{ x | fooo }}", "chat template, line 3: unknown filter 'fooo'"},
      {"a\n{{ x is fooo }}", "chat template, line 2: unknown test 'fooo'"},
      {"{{ 'a' | uper }}", "chat template, line 1: unknown filter 'uper' (did you mean 'upper'?)"},
      {"\n\n{% foo %}", "chat template, line 3: unknown tag 'foo'"},
      {"{% include 'x' %}", "chat template, line 1: the tag 'include' is not supported: a chat template stands alone"},
      {"{% extends 'x' %}", "chat template, line 1: the tag 'extends' is not supported: a chat template stands alone"},
      {"{% from 'x' import y %}",
       "chat template, line 1: the tag 'from' is not supported: a chat template stands alone"},
      {"{% import 'x' as y %}",
       "chat template, line 1: the tag 'import' is not supported: a chat template stands alone"},
      {"x\n{% if 1 %}\n\n", "chat template, line 2: '{% if %}' is never closed: '{% endif %}' is missing"},
      {"x\n{# ab", "chat template, line 2: a comment is never closed: '#}' is missing"},
      {"{{ 1 }\n}", "chat template, line 1: '}' closes nothing"},
      {"{{ (1] }}", "chat template, line 1: ']' stands where ')' is expected"},
      {"\n{{ 'abc", "chat template, line 2: a string is never closed"},
      {"\n{{ 1 +\n }}", "chat template, line 3: unexpected '}}'"},
      {"{% if", "chat template, line 1: the template ends where a value should stand"},
      {"{{ a ; b }}", "chat template, line 1: unexpected character \";\""},
      {"\n{{ nope.x }}", "chat template, line 2: 'nope' is undefined"},
      {"{% set d = {'a': 1} %}\n{{ d.b.c }}", "chat template, line 2: 'dict object' has no attribute 'b'"},
      {"\n{{ nofunction(1) }}", "chat template, line 2: 'nofunction' is undefined"},
      {"\n{{ 'a'.encode() }}", "chat template, line 2: the method 'encode' of 'str' is not supported"},
      {"{{ 'a'.foo() }}", "chat template, line 1: 'str object' has no attribute 'foo'"},
      {"{{ [1].append(2) }}", "chat template, line 1: 'append' of a list is refused: templates change no values"},
      {"\n{{ 1 + 'a' }}", "chat template, line 2: '+' does not work between values of type 'int' and 'str'"},
      {"{{ 2 ** 200 }}", "chat template, line 1: a whole number grows beyond 128 bits"},
      {"{% macro f(a) %}{% endmacro %}\n{{ f(b=1) }}", "chat template, line 2: macro 'f' has no parameter 'b'"},
      {"{{ 'a' | replace('b') }}", "chat template, line 1: filter 'replace' needs its argument 'new'"},
      {"{{ raise_exception('only this ' ~ 1) }}", "only this 1"},
      {"{{ strftime_now('%Q') }}", "chat template, line 1: strftime_now does not know the format '%Q'"},
      {"{{ '\\ud800' }}",
       "chat template, line 1: a string has a \\x, \\u or \\U escape that is cut short or names no character"},
      {"a\xff", "chat template: byte 1 is not valid UTF-8"},
  };
  for (const auto& [source, message] : cases) EXPECT_EQ(error_of(source), message) << source;
}

TEST(ChatTemplate, RefusesVariablesThatAreNoObjectOrNoText) {
  EXPECT_FALSE(render("x", OrderedJson::array()));
  EXPECT_FALSE(render("x", {{"a", "\xc3("}}));
  EXPECT_FALSE(render("x", {{"a", {{"\xff", 1}}}}));
}

std::string times(int count, const std::string& text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Each of the hostile templates would take hours, all of the memory, or the stack. The limits are a tenth of the usual
// ones: these tests are about the kinds of attack, not about waiting.
void expect_to_end(std::initializer_list<std::pair<const char*, std::string>> cases) {
  TemplateLimits limits;
  limits.max_steps /= 10;
  limits.max_memory_bytes /= 10;
  limits.max_output_bytes /= 10;
  for (const auto& [name, source] : cases) {
    const auto start = std::chrono::steady_clock::now();
    const std::string message = error_of(source, limits);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_TRUE(message.starts_with("chat template")) << name << ": " << message;
    EXPECT_LT(message.size(), 300u) << name << ": " << message;
    EXPECT_LT(seconds, 60) << name;  // 0.2 s on an idle machine; sanitizers on a busy one are slow
  }
}

TEST(ChatTemplate, TemplatesThatGrowEndWithASentence) {
  const std::string r = "{% for a in range(99999) %}";
  const std::string e = "{% endfor %}";
  const std::string doubling = "{% set ns = namespace(s='x', l=[1]) %}{% for i in range(200) %}";
  expect_to_end({
      {"loops", times(4, r) + "x" + times(4, e)},
      {"empty loops", times(3, r) + times(3, e)},
      {"doubling a string", doubling + "{% set ns.s = ns.s + ns.s %}{% endfor %}"},
      {"doubling by concat", doubling + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}"},
      {"doubling by replace", doubling + "{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}"},
      {"doubling by join", doubling + "{% set ns.s = ns.s.join([ns.s, ns.s, ns.s]) %}{% endfor %}"},
      {"doubling by format", doubling + "{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}"},
      {"doubling by set", doubling + "{% set b %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = b %}{% endfor %}"},
      {"doubling a list", doubling + "{% set ns.l = ns.l + ns.l %}{% endfor %}"},
      {"nesting a list", "{% set ns = namespace(l=[]) %}" + r + "{% set ns.l = [ns.l] %}" + e},
      {"a shared tree printed",
       "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}" + e + "{{ ns.l }}"},
      {"a shared tree as JSON", "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}" +
                                    e + "{{ ns.l | tojson }}"},
      {"shared trees compared",
       "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}"
       "{% set ns.m = [ns.m, ns.m] %}" +
           e + "{{ ns.l == ns.m }}"},
      {"shared trees as keys",
       "{% set ns = namespace(l=(1,)) %}{% for i in range(99) %}{% set ns.l = (ns.l, ns.l) %}" + e + "{{ {ns.l: 1} }}"},
  });
}

TEST(ChatTemplate, TemplatesThatAskForHugeThingsEndWithASentence) {
  const std::string r = "{% for a in range(99999) %}";
  const std::string e = "{% endfor %}";
  expect_to_end({
      {"a huge product", "{{ ('x' * 1000000000000) | length }}"},
      {"a huge list", "{{ ([1] * 1000000000000) | length }}"},
      {"a huge power", "{{ 9 ** 9 ** 9 ** 9 }}"},
      {"a huge range", "{{ range(1000000000000) | list }}"},
      {"a huge width", "{{ '%1000000000d' % 1 }}"},
      {"a huge width again", "{{ '{:1000000000}'.format(1) }}"},
      {"a huge centre", "{{ 'x' | center(100000000000) }}"},
      {"a huge indent", "{{ 'a\\nb' | indent(100000000000) }}"},
      {"a huge JSON indent", "{{ [1] | tojson(indent=100000000000) }}"},
      {"a huge batch", "{{ [1] | batch(100000000000, 'x') | list }}"},
      {"many slices", "{{ [1] | slice(100000000000) | list }}"},
      {"padding", "{{ 'x'.ljust(100000000000) }}{{ 'x'.zfill(100000000000) }}"},
      {"a huge output", times(2, r) + times(40, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") + times(2, e)},
  });
}

TEST(ChatTemplate, TemplatesThatCallThemselvesEndWithASentence) {
  const std::string r = "{% for a in range(99999) %}";
  const std::string e = "{% endfor %}";
  expect_to_end({
      {"a macro that calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"},
      {"macros that call each other",
       "{% macro f(n) %}{{ g(n) }}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ f(n) }}"
       "{% endmacro %}{{ f(1) }}"},
      {"a caller that calls itself",
       "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}"
       "{% endcall %}{% endmacro %}{{ g() }}"},
      {"a recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"},
      {"exponential macros",
       "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"},
      {"a chain of generators",
       "{% set ns = namespace(g=[1]) %}" + r + "{% set ns.g = ns.g | map('string') %}" + e + "{{ ns.g | list }}"},
  });
}

TEST(ChatTemplate, TemplatesThatNestEndWithASentence) {
  expect_to_end({
      {"open brackets", "{{ " + times(1'000'000, "(")},
      {"open lists", "{{ " + times(100'000, "[") + times(100'000, "]") + " }}"},
      {"open dicts", "{{ " + times(100'000, "{1:") + times(100'000, "}") + " }}"},
      {"brackets", "{{ " + times(100'000, "(") + "1" + times(100'000, ")") + " }}"},
      {"many not", "{{ " + times(200'000, "not ") + "1 }}"},
      {"many signs", "{{ " + times(200'000, "-") + "1 }}"},
      {"many sums", "{{ 1" + times(200'000, "+1") + " }}"},
      {"many filters", "{{ 1" + times(100'000, "|abs") + " }}"},
      {"many attributes", "{{ a" + times(100'000, ".b") + " }}"},
      {"many calls", "{{ a" + times(100'000, "()") + " }}"},
      {"many conditions", "{{ 1" + times(50'000, " if 1 else 1") + " }}"},
      {"many blocks", times(50'000, "{% if 1 %}")},
      {"many loops", times(30'000, "{% for a in b %}")},
      {"many subscripts", "{{ a" + times(100'000, "[0]") + " }}"},
      {"subscripts inside", "{{ a" + times(100'000, "[a") + " }}"},
      {"nested targets", "{% set " + times(100'000, "(") + "a %}"},
      {"many tests", "{{ 1" + times(50'000, " is odd") + " }}"},
      {"a long template", std::string(2'000'000, 'x')},
  });
}

// What is long but honest works.
TEST(ChatTemplate, LongChainsThatAreHonestRender) {
  EXPECT_EQ(*render("{{ 'a'" + times(300, " ~ 'a'") + " }}"), times(301, "a"));
  EXPECT_EQ(*render("{{ 1" + times(300, " + 1") + " }}"), "301");
  EXPECT_EQ(*render(times(300, "{% if false %}{% else %}x{% endif %}")), times(300, "x"));
  EXPECT_EQ(*render("{% if false %}" + times(500, "{% elif false %}") + "{% else %}x{% endif %}"), "x");
  EXPECT_EQ(*render("{{ " + times(100, "(") + "1" + times(100, ")") + " }}"), "1");
  EXPECT_EQ(*render("{% macro f(n) %}{% if n > 0 %}{{ n % 10 }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"),
            times(6, "0987654321"));
}

TEST(ChatTemplate, ManyMessagesTakeLinearTime) {
  OrderedJson messages = OrderedJson::array();
  for (int i = 0; i < 5'000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"}, {"content", std::string(1'000, 'x')}});
  const auto result = render(
      "{% for m in messages %}{% if loop.first or m.role != messages[loop.index0 - 1].role %}<{{ m.role }}>"
      "{{ m.content.split('</think>')[-1].lstrip('\\n') | trim }}{% endif %}{% endfor %}",
      {{"messages", messages}});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->size(), 2'500u * (2'000 + 6 + 11));
}

TEST(ChatTemplate, LimitsAreTheCallers) {
  TemplateLimits limits;
  limits.max_output_bytes = 10;
  EXPECT_EQ(error_of("0123456789a", limits), "chat template, line 1: the prompt is longer than 10 bytes");
  EXPECT_EQ(*render("0123456789", OrderedJson::object(), limits), "0123456789");
  limits.max_steps = 1'000;
  EXPECT_EQ(error_of("{% for i in range(9999) %}{% endfor %}", limits),
            "chat template, line 1: the template does not end within 1000 steps");
}

// Values that come to refer to themselves are freed all the same: the address sanitizer looks for leaks.
TEST(ChatTemplate, CyclesAreFreed) {
  EXPECT_EQ(*render("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns, ns] %}ok"), "ok");
  EXPECT_EQ(*render("{% set ns = namespace() %}{% for i in [1, 2] if i %}{% set ns.l = loop %}"
                    "{{ loop.changed(loop) }}{% endfor %}"),
            "TrueFalse");
  EXPECT_EQ(*render("{% macro f(x) %}{% macro g() %}{{ x }}{% endmacro %}{% set ns.m = g %}{% endmacro %}"
                    "{% set ns = namespace(m=0) %}{% for i in range(3000) %}{{ f(ns.m) }}{% endfor %}ok"),
            "ok");
  EXPECT_EQ(
      *render("{% macro h() %}{% set ns.m = caller %}{% endmacro %}{% macro f(x) %}{% call h() %}{{ x }}{% endcall %}"
              "{% endmacro %}{% set ns = namespace(m=0) %}{% for i in range(3000) %}{{ f(ns.m) }}{% endfor %}ok"),
      "ok");
  EXPECT_EQ(*render("{% set ns = namespace(l=0) %}{% for i in range(60) %}{% for y in [ns.l] %}{% set ns.l = loop %}"
                    "{% endfor %}{% endfor %}ok"),
            "ok");
}

TEST(ChatTemplate, TimeIsTheGivenOne) {
  EXPECT_EQ(*render("{{ strftime_now('%d %b %Y %H:%M:%S.%f %a %j%Z%z%% %-d') }}", OrderedJson::object(), {},
                    local_time("2024-02-29T07:08:09")),
            "29 Feb 2024 07:08:09.000000 Thu 060% 29");
  EXPECT_EQ(render("{{ strftime_now('%Y') }}")->size(), 4u);
}

TEST(ChatTemplate, OneTemplateServesManyThreads) {
  const auto parsed = ChatTemplate::parse(
      "{% macro f(x) %}{{ x ~ '!' }}{% endmacro %}{% for i in range(200) %}{{ f('a' + n) }}{% endfor %}");
  ASSERT_TRUE(parsed);
  std::vector<std::thread> threads;
  std::vector<std::string> results(4);
  for (std::size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] { results[t] = *parsed->render({{"n", std::to_string(t)}}); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < results.size(); ++t) EXPECT_EQ(results[t], times(200, "a" + std::to_string(t) + "!"));
}

}  // namespace
}  // namespace octavo
