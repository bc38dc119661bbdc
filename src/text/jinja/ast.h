// The parsed template: expressions and statements. Built once by the parser, never changed, shared by renderings.
//
// One struct for all expressions and one for all statements, whose kind says which fields it uses. The depth of a tree
// is bounded by the parser, so that walking and freeing it may recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/registry.h"
#include "text/jinja/value.h"

namespace octavo::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class Op : std::uint8_t {
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *list
  ExprPtr double_star;  // **dict
};

struct Expr {
  enum class Kind : std::uint8_t {
    constant,     // value
    name,         // name
    tuple,        // parts
    list,         // parts
    dict,         // parts: key, value, key, value, ...
    attribute,    // parts[0].name
    item,         // parts[0][parts[1]]
    slice,        // parts[0][parts[1]:parts[2]:parts[3]], each bound may be null
    call,         // parts[0](arguments)
    filter,       // parts[0] | name(arguments); a null parts[0] is the text of the block
    test,         // parts[0] is name(arguments)
    negative,     // -parts[0]
    positive,     // +parts[0]
    logical_not,  // parts[0]
    logical_and,  // parts[0], parts[1]
    logical_or,   // parts[0], parts[1]
    compare,      // parts[0] ops[0] parts[1] ops[1] parts[2] ...
    concat,       // all parts, as text
    binary,       // parts[0] ops[0] parts[1]
    conditional,  // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind = Kind::constant;
  int line = 0;
  int depth = 1;  // of the tree below, this node included
  std::string name;
  Value value;
  std::vector<ExprPtr> parts;
  std::vector<Op> ops;
  CallArguments arguments;
  FilterFunction filter = nullptr;  // null: no filter has this name
  TestFunction test = nullptr;
};

struct Target {
  enum class Kind : std::uint8_t { name, attribute, tuple };
  Kind kind = Kind::name;
  std::string name;
  std::string attribute;  // of the namespace `name`
  std::vector<Target> parts;
};

struct Parameter {
  std::string name;
  ExprPtr fallback;  // null: none
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr test;  // null: else
  Body body;
};

struct Stmt {
  enum class Kind : std::uint8_t {
    text,       // text
    output,     // expr
    condition,  // branches
    loop,       // for target in expr if test: body, else: other
    assign,     // set target = expr
    capture,    // set target | expr: body
    with,       // targets = values: body
    macro,      // name(parameters): body
    call,       // call(parameters) expr: body
    filter,     // filter expr: body
    scope,      // generation: body
    break_loop,
    continue_loop,
  };
  Kind kind = Kind::text;
  int line = 0;
  std::string text;
  std::string name;
  ExprPtr expr;
  ExprPtr test;
  bool recursive = false;
  Target target;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  std::vector<Branch> branches;
  Body body;
  Body other;
  std::vector<Parameter> parameters;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;  // of a macro's or call's body
};

struct Program {
  Body body;
};

}  // namespace octavo::jinja
