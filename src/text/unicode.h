// The Unicode that tokenizers need: walking UTF-8, repairing it, a few character classes, the normalisation forms.
//
// Functions that take `valid` text trust it to be UTF-8; the others take any bytes. Everything is linear in the text,
// also for the normalisation of long runs of combining marks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace octavo {

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";             // U+2581, how some vocabularies spell a space

std::size_t utf8_length(char lead);  // bytes of the character that begins with `lead` (1 for a byte that begins none)
char32_t decode_utf8(std::string_view valid, std::size_t at);
std::size_t previous_utf8(std::string_view valid, std::size_t at);  // where the character before `at` > 0 begins
void append_utf8(std::string& out, char32_t character);

bool is_white_space(char32_t character);
bool is_number(char32_t character);  // categories Nd, Nl, No
bool is_word(char32_t character);    // letters, marks, digits, connecting punctuation, joiners

// Appends `bytes` to `out`, each maximal broken sequence as one U+FFFD. An unfinished character at the end is broken
// too, unless `keep_unfinished`: then it is left out, and the result is the number of its bytes.
std::size_t append_repaired(std::string& out, std::string_view bytes, bool keep_unfinished);

std::string normalize(std::string_view valid, UnicodeForm form);
std::string_view form_name(UnicodeForm form);  // "NFC"

}  // namespace octavo
