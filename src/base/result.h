// Result<T>: a value, or an Error that says why not.
//
// An Error is one sentence for a person (it names the thing and the remedy), a kind for a program (exit code,
// HTTP status), and the context added on the way up ("reading model.safetensors: tensor 'x': ...").
// Member names follow std::expected, which libstdc++ 12 and nvcc 13 do not offer in C++20; one alias can replace it.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace octavo {

enum class ErrorKind {
  invalid,      // the input is wrong: file, flag, JSON, prompt        -> 400
  not_found,    // a file or name that does not exist                  -> 404
  unsupported,  // well-formed, but octavo does not do it              -> 400
  exhausted,    // memory, pages, queue: try smaller or later          -> 503
  unavailable,  // the engine or device cannot serve any more          -> 503
  internal,     // our fault                                           -> 500
};

class [[nodiscard]] Error {
 public:
  explicit Error(std::string message, ErrorKind kind = ErrorKind::invalid)
      : message_(std::move(message)), kind_(kind) {}

  const std::string& message() const { return message_; }
  ErrorKind kind() const { return kind_; }

  // The same error seen from one floor higher: "context: message".
  Error in(const std::string& context) const { return Error(context + ": " + message_, kind_); }

 private:
  std::string message_;
  ErrorKind kind_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

  // Adds context to the error, if there is one.
  Result in(const std::string& context) && {
    if (has_value()) return std::move(*this);
    return error().in(context);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() = default;
  Result(Error error) : error_(std::move(error)), failed_(true) {}

  bool has_value() const { return !failed_; }
  explicit operator bool() const { return has_value(); }
  void value() const {}
  void operator*() const {}
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }
  Result in(const std::string& context) && { return failed_ ? Result(error_.in(context)) : Result(); }

 private:
  Error error_{std::string()};
  bool failed_ = false;
};

using Status = Result<void>;

}  // namespace octavo

// OCTAVO_TRY(auto x, expr): x is the value of expr, or this function returns its error.
// OCTAVO_TRY(expr): the same for a value that nobody needs.
#define OCTAVO_TRY_NAME_(line) octavo_result_##line
#define OCTAVO_TRY_NAME(line) OCTAVO_TRY_NAME_(line)
#define OCTAVO_TRY_2(name, target, ...)      \
  auto name = (__VA_ARGS__);                 \
  if (!name) return std::move(name).error(); \
  target = *std::move(name)
#define OCTAVO_TRY_1(name, ...) \
  if (auto name = (__VA_ARGS__); !name) return std::move(name).error()
#define OCTAVO_TRY_PICK(_1, _2, _3, _4, _5, _6, _7, _8, pick, ...) pick
#define OCTAVO_TRY_SOME(name, target, ...) OCTAVO_TRY_2(name, target, __VA_ARGS__)
#define OCTAVO_TRY(...)                                                                                             \
  OCTAVO_TRY_PICK(__VA_ARGS__, OCTAVO_TRY_SOME, OCTAVO_TRY_SOME, OCTAVO_TRY_SOME, OCTAVO_TRY_SOME, OCTAVO_TRY_SOME, \
                  OCTAVO_TRY_SOME, OCTAVO_TRY_SOME, OCTAVO_TRY_1, )                                                 \
  (OCTAVO_TRY_NAME(__LINE__), __VA_ARGS__)
