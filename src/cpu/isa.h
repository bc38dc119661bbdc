// Isa: the instruction sets that this wing has paths for, and what the processor and operating system offer of them.
// Files that need one carry it in their name (linear_avx2.cc) and are reached through cpu/kernels.h only.
#pragma once

#include <string_view>

#include "base/result.h"

namespace octavo::cpu {

enum class Isa { plain, avx2, avx512, avx512vnni, amx };

Isa best_isa();  // the fastest that this processor, its operating system and this build have
std::string_view name_of(Isa isa);
Result<Isa> parse_isa(std::string_view name);

}  // namespace octavo::cpu
