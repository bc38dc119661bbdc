// Scope: the variables of one block of a running template, and the scope around it.
//
// Assignments go to the innermost scope, look-ups from there outwards. Loops, macros, with, set and filter blocks have
// one; conditions do not. A name that the template assigns further down still shows the caller's variable before that.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "text/jinja/value.h"

namespace octavo::jinja {

struct Scope : Object {
  std::unordered_map<std::string, Value> variables;
  std::shared_ptr<Scope> parent;
  bool kept = false;  // by the interpreter, because a macro or loop refers to it
  void forget() override { variables.clear(); }

  void set(const std::string& name, Value value) {
    const auto [place, is_new] = variables.insert_or_assign(name, std::move(value));
    if (!is_new || !budget) return;
    constexpr std::size_t kNodeBytes = 128;
    budget->take(kNodeBytes);
    num_bytes += kNodeBytes;
  }

  const Value* find(const std::string& name) const {
    for (const Scope* scope = this; scope; scope = scope->parent.get())
      if (const auto found = scope->variables.find(name); found != scope->variables.end()) return &found->second;
    return nullptr;
  }
};

}  // namespace octavo::jinja
