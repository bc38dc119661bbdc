// How much memory this process may still really use: the smallest of what the machine has available and what every
// control group (v1 or v2) above the process leaves, file cache that can be dropped counted as free.
#pragma once

#include <string>

#include "tensor/device.h"

namespace octavo::cpu {

// `root` is put before /proc and /sys, for tests. What cannot be read sets no limit.
MemoryInfo read_memory(const std::string& root = "");

// Anonymous bytes of this process that lie in memory now; 0 if the system does not tell.
std::size_t resident_bytes();

}  // namespace octavo::cpu
