// What `octavo bench serve` sends and when: prompts of random lengths, and arrivals. All of it follows from the seed.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace octavo {

struct LoadOptions {
  int num_prompts = 1000;
  int input_len = 1024;
  int output_len = 128;
  int prefix_len = 0;      // tokens that all prompts begin with, beside input_len
  double range_ratio = 0;  // lengths are drawn from [floor(len (1 - r)), ceil(len (1 + r))], at least 1
  std::optional<double> request_rate = {};  // requests a second; absent: all at once
  double burstiness = 1;                    // shape of the gamma distribution of the gaps; 1: a Poisson process
  std::uint64_t seed = 0;
};

struct PlannedCall {
  std::vector<std::int32_t> ids;  // indices into what the prompt is made of
  int output_len = 0;
  double arrival_seconds = 0;
};

// num_units: how many different tokens or words there are to make prompts of.
std::vector<PlannedCall> plan_load(const LoadOptions& options, int num_units);

// Seconds from the start, ascending. The last is num / rate, as vLLM scales them, so that the rate is met exactly.
std::vector<double> plan_arrivals(int num, double rate, double burstiness, std::mt19937_64& random);

// Text of plain English words to learn a server's tokens from; and the words themselves, with a space before each.
std::vector<std::string> load_words();

}  // namespace octavo
