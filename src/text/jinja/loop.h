// Loop: what `loop` is inside a for block. Elements are fetched one by one, and filtered as they are fetched, because
// the body may change what the filter asks for; loop.last and loop.nextitem look one element ahead, loop.length at all.
//
// A loop may outlive its block, in a namespace: it holds what it needs to answer. Not iterable itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "text/jinja/scope.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

struct Stmt;

struct Loop : Object {
  const Stmt* statement = nullptr;
  std::shared_ptr<Scope> outer;  // of a recursive loop: where its body runs again
  Value source;
  std::unique_ptr<Cursor> cursor;
  std::function<bool(const Value&)> accepts;  // empty: everything
  int level = 0;                              // of recursion
  std::int64_t index0 = -1;
  Value current, previous;
  std::optional<std::vector<Value>> last_changed;

  bool advance();  // to the next element
  const Value* peek();
  std::size_t length();
  void forget() override { last_changed.reset(); }

 private:
  bool fetch();  // one more element into ahead_
  std::vector<Value> ahead_;
  std::size_t ahead_at_ = 0;
};

}  // namespace octavo::jinja
