// `octavo run`: one answer to a prompt, or a chat in the terminal.
#pragma once

#include <optional>
#include <string>

#include "engine/engine.h"
#include "terminal/console.h"

namespace octavo {

struct RunOptions {
  EngineConfig engine;
  SamplingParams sampling;
  std::optional<std::string> prompt;  // -p; absent: a chat at a terminal, else all of stdin
  std::string system;
  std::string chat_template;  // --chat-template, or empty
};

Status run(const RunOptions& options, const BackendFactory& make_backend, InterruptWatcher& interrupts);

}  // namespace octavo
