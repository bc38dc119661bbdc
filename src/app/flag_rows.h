// The rows of options.h's list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/options.h"

namespace octavo {

enum class Effect { honoured, no_effect, refused };

constexpr unsigned bit(Command command) { return 1u << static_cast<unsigned>(command); }
constexpr unsigned kEvalText = bit(Command::eval_nll) | bit(Command::eval_kld);
constexpr unsigned kBenchMany = bit(Command::bench_latency) | bit(Command::bench_sweep);    // several caches
constexpr unsigned kBenchOne = bit(Command::bench_throughput) | bit(Command::bench_verbs);  // one cache
constexpr unsigned kBench = kBenchMany | kBenchOne;
constexpr unsigned kKernels = bit(Command::bench_kernels) | bit(Command::advise);  // without a model
constexpr unsigned kEngineCommands =
    bit(Command::run) | bit(Command::serve) | bit(Command::eval_logits) | kEvalText | kBench;

struct FlagRow {
  std::string name;   // "--dtype"; a second name after a comma: "-p,--prompt"
  std::string value;  // what is written for it in the help; empty: a switch
  std::string help;
  std::string standard;  // the default, for people
  unsigned commands = 0;
  std::function<Status(Options&, const std::string&)> set;
  Effect effect = Effect::honoured;
  std::string because{};  // of no_effect and refused
  bool repeats = false;   // each one on the command line counts, not the last alone
};

std::vector<FlagRow> flag_rows();

}  // namespace octavo
