// LoadPrompts: what a benchmark's prompts are made of. Where the server tells its tokens (/tokenize, as vLLM's and ours
// do), ids of plain words for completions, so that lengths are exact; else words, which are about a token each.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "client/bench_load.h"
#include "client/http_client.h"

namespace octavo {

class LoadPrompts {
 public:
  static Result<LoadPrompts> learn(HttpClient& client, const std::string& model, bool text_only);

  int num_units() const;
  int units_of(int tokens) const;  // how many units make so many tokens
  nlohmann::ordered_json prompt(const std::vector<std::int32_t>& units) const;

 private:
  std::vector<std::string> words_;
  std::vector<std::int32_t> ids_;  // empty: text
  double tokens_per_word_ = 1;
};

}  // namespace octavo
