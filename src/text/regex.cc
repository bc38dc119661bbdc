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

// A match that begins here takes few steps, but in long runs of white space, which are walked forth and back a few
// times. What one needs beyond these comes out of a store that each search has for its texts.
constexpr std::uint32_t kFewSteps = 1000;
constexpr std::uint64_t kStoredSteps = 10'000'000;  // for any text, and for each of its bytes:
constexpr std::uint64_t kStoredStepsPerByte = 64;
constexpr std::size_t kWindow = 64;               // places tried at once where one of them needs more
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
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &error,
                    &offset, nullptr);
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

  // PCRE2's answer for matches that begin at `from` to `last`; each of these places may take so many steps.
  int match(std::string_view text, std::size_t from, std::size_t last, std::uint32_t steps) {
    pcre2_set_match_limit(context, steps);
    pcre2_set_offset_limit(context, last);
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (code.has_jit) found = pcre2_jit_match(code.code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data, context);
    // The compiled form works on 32 KiB of stack; what needs more is done by the interpreter, which works on the heap.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code.code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context);
    return found;
  }

  const Regex::Code& code;
  pcre2_match_context* context;
  pcre2_match_data* data;
  std::uint64_t stored_steps = kStoredSteps;
};

RegexSearch::RegexSearch(const Regex& regex) : memory_(std::make_unique<Memory>(*regex.code_)) {}
RegexSearch::RegexSearch(RegexSearch&&) noexcept = default;
RegexSearch::~RegexSearch() = default;

// PCRE2 counts the steps of each place anew, and a text has many places. So all of them are tried with few steps; where
// that is not enough for one, some are, then each alone, and it is given more out of the store, four times as many each
// time. What a search takes is thereby in proportion to its texts.
Result<std::optional<RegexSearch::Match>> RegexSearch::find(std::string_view valid, std::size_t from) {
  constexpr std::size_t kAll = PCRE2_UNSET;
  Memory& m = *memory_;
  if (from == 0) m.stored_steps += kStoredStepsPerByte * valid.size();
  std::size_t window = kAll, alone_to = 0;
  std::uint32_t steps = kFewSteps;
  while (from <= valid.size()) {
    const std::size_t last = window == kAll ? kAll : from + window - 1;
    const int found = m.match(valid, from, last, steps);
    if (found >= 0) {
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(m.data);
      return std::optional<Match>(Match{ends[0], std::max(ends[0], ends[1])});
    }
    if (found == PCRE2_ERROR_NOMATCH) {
      if (window == kAll) break;
      from = last + 1;
      while (from < valid.size() && (static_cast<unsigned char>(valid[from]) & 0xC0) == 0x80) ++from;
      if (from > alone_to) window = kAll;
      steps = kFewSteps;
      continue;
    }
    if (found != PCRE2_ERROR_MATCHLIMIT || m.stored_steps < steps)
      return Error("the tokenizer's regular expression gave up on a text of " + std::to_string(valid.size()) +
                   " bytes (" + pcre2_message(found) + "): split the text, or simplify the expression");
    m.stored_steps -= steps;
    if (window == kAll) {
      window = kWindow;
    } else if (window > 1) {
      window = 1;
      alone_to = last;
    } else {
      steps = steps > std::numeric_limits<std::uint32_t>::max() / 4 ? steps : steps * 4;
    }
  }
  return std::optional<Match>();
}

}  // namespace octavo
