// Oniguruma's dialect of regular expressions, as tokenizer files use it, rewritten for PCRE2 so that both match the
// same.
//
// Where they differ: \s, \w and \h stand for other characters, script names mean the script alone, and classes may be
// cut with each other ([A&&[^B]]). What cannot be rewritten is refused by name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace octavo {

Result<std::string> translate_regex(std::string_view pattern);

}  // namespace octavo
