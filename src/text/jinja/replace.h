// Replacing and padding: what a method of str and a filter of Jinja both do.
//
// The result can be far larger than what was given; it grows under the budget and fails when that is spent.
// Positions and widths count code points.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace octavo::jinja {

// str.replace: an empty `part` stands before every character and at the end. count below zero: everywhere.
std::string replaced(std::string_view text, std::string_view part, std::string_view by, std::int64_t count,
                     Budget& budget);

// str.ljust ('l'), rjust ('r'), center ('c').
std::string padded_text(const Text& text, std::int64_t width, std::string_view fill, char side, Budget& budget);

}  // namespace octavo::jinja
