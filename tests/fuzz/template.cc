// Fuzz target: a chat template, and perhaps its variables as JSON behind a NUL byte. A rendering ends within its
// limits, is UTF-8, and is the same each time; an error is a sentence, but for the text that a template raises itself.
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "base/json.h"
#include "base/strings.h"
#include "tests/fuzz/readers.h"
#include "text/chat_template.h"

namespace octavo {
namespace {

constexpr const char* kVariables = R"({"messages":[{"role":"system","content":"Be \"brief\" & <kind>."},
  {"role":"user","content":"h\u00e9llo\n 12"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",
  "function":{"name":"now","arguments":{"zone":"UTC","n":[1,2.5,true,null]}}}]},{"role":"tool","content":"3"}],
  "tools":[{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}],
  "add_generation_prompt":true,"bos_token":"<s>","eos_token":"</s>"})";

TemplateLimits small_template_limits() {
  TemplateLimits limits;
  limits.max_steps = 200'000;
  limits.max_output_bytes = std::size_t{1} << 20;
  limits.max_memory_bytes = std::size_t{8} << 20;
  return limits;
}

}  // namespace
}  // namespace octavo

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace octavo;
  const auto parts = split_input(data, size, 2);
  const auto parsed = ChatTemplate::parse(parts[0]);
  if (!succeeds(parsed)) return 0;
  static const OrderedJson usual = *parse_ordered_json(kVariables, "the variables");
  const auto given = parse_ordered_json(parts[1], "the variables");
  const OrderedJson& variables = given ? *given : usual;
  const TemplateLimits limits = small_template_limits();
  std::tm now{};
  now.tm_year = 126;
  now.tm_mon = 1;
  now.tm_mday = 28;
  const auto text = parsed->render(variables, limits, now);
  if (text) {
    require(text->size() <= limits.max_output_bytes, "a rendering keeps to its limit", parts[0]);
    require(find_invalid_utf8(*text) == std::string::npos, "a rendering is UTF-8", *text);
  } else if (parts[0].find("raise_exception") == std::string::npos) {
    require_sentence(text.error());
  }
  const auto again = parsed->render(variables, limits, now);
  require(again.has_value() == text.has_value() && (!text || *again == *text), "a rendering is the same each time",
          parts[0]);
  return 0;
}
