#include "cpu/isa.h"

#include <string>

namespace octavo::cpu {

Isa best_isa() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi2");
  if (!avx2) return Isa::plain;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return Isa::avx2;
  return __builtin_cpu_supports("avx512vnni") ? Isa::avx512vnni : Isa::avx512;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::plain:
      return "plain";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512vnni:
      return "avx512vnni";
    case Isa::amx:
      return "amx";
  }
  return "?";
}

Result<Isa> parse_isa(std::string_view name) {
  if (name == "auto") return best_isa();
  for (const Isa isa : {Isa::plain, Isa::avx2, Isa::avx512, Isa::avx512vnni, Isa::amx})
    if (name == name_of(isa)) return isa;
  return Error("there is no instruction set '" + std::string(name) +
               "'; choose auto, plain, avx2, avx512, avx512vnni or amx");
}

}  // namespace octavo::cpu
