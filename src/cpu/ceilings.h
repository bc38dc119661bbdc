// What the processor can do at best, measured: what bench verbs compares a step with.
#pragma once

#include <cstddef>

#include "base/parallel.h"
#include "cpu/isa.h"
#include "ops/kernel_row.h"

namespace octavo::cpu {

// On all threads of the pool, with this path's instructions. Takes some tenths of a second, and at most a quarter of
// the memory that is available.
Ceilings measure_ceilings(ThreadPool& pool, Isa isa, std::size_t available_bytes);

}  // namespace octavo::cpu
