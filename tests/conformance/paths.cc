#include "tests/conformance/paths.h"

#include <gtest/gtest.h>

#include <vector>

#include "cpu/backend.h"
#include "cuda/backend.h"

namespace octavo::conformance {

namespace {

void add_processor(std::vector<Path>& paths, cpu::Isa isa, bool deterministic) {
  auto backend = cpu::make_backend({.num_threads = 2, .isa = isa, .deterministic = deterministic});
  if (!backend) return;
  const std::string name = std::string(cpu::name_of(isa)) + (deterministic ? ", deterministic" : "");
  const bool vnni = isa == cpu::Isa::avx512vnni || isa == cpu::Isa::amx;
  paths.push_back({name, isa == cpu::Isa::plain, deterministic, true, vnni && !deterministic, *std::move(backend)});
}

std::vector<Path> make_paths() {
  std::vector<Path> paths;
  for (const cpu::Isa isa : {cpu::Isa::plain, cpu::Isa::avx2, cpu::Isa::avx512, cpu::Isa::avx512vnni, cpu::Isa::amx})
    for (const bool deterministic : {false, true}) {
      if (isa == cpu::Isa::plain && !deterministic) continue;
      if (isa == cpu::Isa::avx512vnni && deterministic) continue;  // avx512's
      add_processor(paths, isa, deterministic);
    }
  for (const bool deterministic : {false, true})
    if (auto backend = cuda::make_backend(0, {.deterministic = deterministic}))
      paths.push_back(
          {deterministic ? "cuda, deterministic" : "cuda", false, deterministic, false, false, *std::move(backend)});
  return paths;
}

}  // namespace

void for_each_path(const std::function<void(Path&)>& body) {
  for (Path& path : make_paths()) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, "path " + path.name);
    body(path);
  }
}

}  // namespace octavo::conformance
