// ChatTemplate: a model's Jinja2 chat template, parsed once and rendered often.
//
// Renders as the libraries that models are published with do: Jinja2's sandbox, trim_blocks and lstrip_blocks, loop
// controls, `generation` blocks passed through, tojson as Python's json.dumps without ASCII or HTML escapes.
// A rendering is const and needs no lock. Steps, output, memory and recursion are bounded, so that a hostile template
// ends with a sentence. Refused by name: include, import, from, extends, block; unknown tags, filters and tests when
// parsing; unknown functions and whatever Python would raise when rendering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"

namespace octavo {

using OrderedJson = nlohmann::ordered_json;

namespace jinja {
struct Program;
}

// For hostile templates; honest ones on long chats stay below a hundredth of each.
struct TemplateLimits {
  std::int64_t max_steps = 20'000'000;                    // evaluated nodes, handled elements, blocks of 256 bytes
  std::size_t max_output_bytes = std::size_t{64} << 20;   // of the prompt
  std::size_t max_memory_bytes = std::size_t{256} << 20;  // of all values that live at one time, the variables included
  int max_depth = 1000;  // blocks, calls and operations inside each other; a recursive macro takes some ten a call
};

class ChatTemplate {
 public:
  // "chat template, line 3: unknown filter 'foo'".
  static Result<ChatTemplate> parse(std::string source);

  // `variables` is an object: messages, tools, add_generation_prompt, bos_token, ... `now` is the local time that
  // strftime_now shows; the clock's when absent. raise_exception(text) gives an error that is this text and nothing
  // else.
  Result<std::string> render(const OrderedJson& variables, const TemplateLimits& limits = {},
                             const std::optional<std::tm>& now = {}) const;

  const std::string& source() const { return source_; }

 private:
  ChatTemplate(std::string source, std::shared_ptr<const jinja::Program> program);
  std::string source_;
  std::shared_ptr<const jinja::Program> program_;
};

}  // namespace octavo
