// Peaks: loops that do nothing but read, or nothing but multiply and add in registers: what a path can reach at best.
// Plain declarations only, so that files of any instruction set may include it.
#pragma once

#include <cstdint>

namespace octavo::cpu {

struct Peaks {
  float (*read)(const float* numbers, std::int64_t count) = nullptr;  // count: a multiple of kPeakStep
  float (*multiply_add)(std::int64_t rounds) = nullptr;               // null: the path has no such instruction
  int products = 0;                                                   // of a round
};
constexpr std::int64_t kPeakStep = 128;

extern const Peaks kPlainPeaks;
namespace avx512 {
extern const Peaks kPeaks;
}
namespace avx2 {
extern const Peaks kPeaks;
}

}  // namespace octavo::cpu
