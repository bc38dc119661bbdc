#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/check.h"
#include "base/strings.h"
#include "text/regex_syntax.h"

namespace octavo {
namespace {

constexpr std::uint64_t kSteps = 10'000'000;      // for any text, and for each of its bytes:
constexpr std::uint64_t kStepsPerByte = 32;       // a run of white space is walked forth and back a few times
constexpr std::uint32_t kHeapLimitKiB = 1 << 20;  // of one match in the interpreter
constexpr std::size_t kMaxPatternBytes = 1 << 16;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) { has_jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0; }
  Code(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
  pcre2_code* code;
  bool has_jit;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) return Error("a regular expression is longer than 64 KiB");
  if (find_invalid_utf8(pattern) != std::string_view::npos)
    return Error("the regular expression " + in_quotes(pattern) + " is not valid UTF-8");
  OCTAVO_TRY(const std::string translated, translate_regex(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr)
    return Error("the regular expression " + in_quotes(pattern) + " does not compile: " + pcre2_message(error));
  return Regex(std::make_shared<const Code>(code));
}

struct RegexSearch::Memory {
  explicit Memory(const Regex::Code& c)
      : code(c), context(pcre2_match_context_create(nullptr)), data(pcre2_match_data_create(1, nullptr)) {
    check(context != nullptr && data != nullptr, "memory for a regular expression search");
    pcre2_set_heap_limit(context, kHeapLimitKiB);
    pcre2_set_depth_limit(context, std::numeric_limits<std::uint32_t>::max());
  }
  ~Memory() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  const Regex::Code& code;
  pcre2_match_context* context;
  pcre2_match_data* data;
  std::size_t limit_for = 0;  // size of text that the match limit in the context is meant for
};

RegexSearch::RegexSearch(const Regex& regex) : memory_(std::make_unique<Memory>(*regex.code_)) {}
RegexSearch::RegexSearch(RegexSearch&&) noexcept = default;
RegexSearch::~RegexSearch() = default;

Result<std::optional<RegexSearch::Match>> RegexSearch::find(std::string_view valid, std::size_t from) {
  Memory& m = *memory_;
  if (m.limit_for < valid.size() || m.limit_for == 0) {
    const std::uint64_t steps = kSteps + kStepsPerByte * valid.size();
    pcre2_set_match_limit(m.context, static_cast<std::uint32_t>(
                                         std::min<std::uint64_t>(steps, std::numeric_limits<std::uint32_t>::max())));
    m.limit_for = valid.size();
  }
  const auto subject = reinterpret_cast<PCRE2_SPTR>(valid.data());
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (m.code.has_jit)
    found = pcre2_jit_match(m.code.code, subject, valid.size(), from, PCRE2_NO_UTF_CHECK, m.data, m.context);
  // The compiled form works on 32 KiB of stack; what needs more is done by the interpreter, which works on the heap.
  if (found == PCRE2_ERROR_JIT_STACKLIMIT)
    found = pcre2_match(m.code.code, subject, valid.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m.data, m.context);
  if (found == PCRE2_ERROR_NOMATCH) return std::optional<Match>();
  if (found < 0)
    return Error("the tokenizer's regular expression gave up on a text of " + std::to_string(valid.size()) +
                 " bytes (" + pcre2_message(found) + "): split the text, or simplify the expression");
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(m.data);
  return std::optional<Match>(Match{ends[0], std::max(ends[0], ends[1])});
}

}  // namespace octavo
