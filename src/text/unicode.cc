#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"

namespace octavo {
namespace {

unsigned char byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

struct Sequence {
  std::size_t length;  // of the character, or of the longest broken beginning of one
  bool valid;
  bool unfinished;  // broken only because the text ends
};

// Unicode's table of well-formed sequences: the second byte has a narrower range after E0, ED, F0 and F4.
Sequence sequence_at(std::string_view bytes, std::size_t at) {
  const unsigned char lead = byte_at(bytes, at);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const std::size_t length = utf8_length(bytes[at]);
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i == bytes.size()) return {i, false, true};
    const unsigned char next = byte_at(bytes, at + i);
    const unsigned char low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (next < low || next > high) return {i, false, false};
  }
  return {length, true, false};
}

// Text between two boundaries, decomposed, in order and composed again.
class Normalizer {
 public:
  explicit Normalizer(UnicodeForm form)
      : compose_(form == UnicodeForm::nfc || form == UnicodeForm::nfkc),
        compatible_(form == UnicodeForm::nfkc || form == UnicodeForm::nfkd) {}

  void add(char32_t character) {
    const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible_ ? UTF8PROC_COMPAT : utf8proc_option_t(0));
    std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition (U+FDFA) has 18
    int last_class = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts.data(), parts.size(),
                                               static_cast<utf8proc_option_t>(options), &last_class);
    check(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), "a decomposition fits");
    characters_.insert(characters_.end(), parts.begin(), parts.begin() + count);
  }

  void flush(std::string& out) {
    sort_marks();
    auto length = static_cast<utf8proc_ssize_t>(characters_.size());
    if (compose_) {
      constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
      length = utf8proc_normalize_utf32(characters_.data(), length, kCompose);
    }
    for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(out, static_cast<char32_t>(characters_[i]));
    characters_.clear();
  }

 private:
  static int combining_class(utf8proc_int32_t character) {
    return static_cast<int>(utf8proc_get_property(character)->combining_class);
  }

  // Canonical order: each run of marks by class. utf8proc's own sort is quadratic in the run.
  void sort_marks() {
    for (std::size_t i = 0; i < characters_.size();) {
      std::size_t end = i;
      while (end < characters_.size() && combining_class(characters_[end]) != 0) ++end;
      if (end - i > 1)
        std::stable_sort(characters_.begin() + static_cast<std::ptrdiff_t>(i),
                         characters_.begin() + static_cast<std::ptrdiff_t>(end),
                         [](auto a, auto b) { return combining_class(a) < combining_class(b); });
      i = end + 1;
    }
  }

  bool compose_, compatible_;
  std::vector<utf8proc_int32_t> characters_;
};

// Characters before which text may be cut without changing any normal form: they begin a character of their own and
// never compose with what stands before them. (ASCII, Han; the rest goes through the tables.)
bool is_boundary(char32_t c) { return c < 0x80 || (c >= 0x4E00 && c < 0xA000); }

}  // namespace

std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

char32_t decode_utf8(std::string_view valid, std::size_t at) {
  const unsigned char lead = byte_at(valid, at);
  const auto tail = [&](std::size_t i) { return static_cast<char32_t>(byte_at(valid, at + i) & 0x3F); };
  if (lead < 0xC0) return lead;
  if (lead < 0xE0) return static_cast<char32_t>(lead & 0x1F) << 6 | tail(1);
  if (lead < 0xF0) return static_cast<char32_t>(lead & 0x0F) << 12 | tail(1) << 6 | tail(2);
  return static_cast<char32_t>(lead & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
}

std::size_t previous_utf8(std::string_view valid, std::size_t at) {
  do --at;
  while (at > 0 && (byte_at(valid, at) & 0xC0) == 0x80);
  return at;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

std::size_t append_repaired(std::string& out, std::string_view bytes, bool keep_unfinished) {
  std::size_t good = 0;  // beginning of the valid text that is not yet copied
  for (std::size_t at = 0; at < bytes.size();) {
    const Sequence next = sequence_at(bytes, at);
    if (!next.valid) {
      out.append(bytes.substr(good, at - good));
      if (next.unfinished && keep_unfinished) return bytes.size() - at;
      out.append(kReplacementCharacter);
      good = at + next.length;
    }
    at += next.length;
  }
  out.append(bytes.substr(good));
  return 0;
}

std::string normalize(std::string_view valid, UnicodeForm form) {
  std::string out;
  out.reserve(valid.size());
  Normalizer normalizer(form);
  std::size_t plain = 0;  // text from here on needs no table so far
  for (std::size_t at = 0; at < valid.size();) {
    // Plain text is copied as it is, but for its last character: a mark may follow.
    std::size_t end = at;
    std::size_t last = at;
    while (end < valid.size() && is_boundary(decode_utf8(valid, end))) {
      last = end;
      end += utf8_length(valid[end]);
    }
    if (end == valid.size()) break;
    out.append(valid.substr(plain, last - plain));
    for (at = last; at < valid.size();) {
      const char32_t character = decode_utf8(valid, at);
      if (at > last && is_boundary(character)) break;
      normalizer.add(character);
      at += utf8_length(valid[at]);
    }
    normalizer.flush(out);
    plain = at;
  }
  out.append(valid.substr(plain));
  return out;
}

std::string_view form_name(UnicodeForm form) {
  constexpr std::array<std::string_view, 4> kNames = {"NFC", "NFD", "NFKC", "NFKD"};
  return kNames[static_cast<std::size_t>(form)];
}

}  // namespace octavo
