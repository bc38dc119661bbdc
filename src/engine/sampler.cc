#include "engine/sampler.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace octavo {
namespace {

// Below this the largest logit takes all the probability there is, and a quotient could overflow: greedy, as in vLLM.
constexpr float kGreedyTemperature = 1e-5f;

}  // namespace

Sampler::Sampler(const SamplingParams& params, std::uint64_t seed, std::span<const std::int32_t> prompt,
                 std::vector<std::int32_t> banned_early)
    : bias_(params.logit_bias),
      banned_early_(std::move(banned_early)),
      bad_words_(params.bad_words),
      min_tokens_(params.min_tokens) {
  if (params.reasoning) reasoning_.emplace(*params.reasoning);
  std::map<std::int32_t, float> allowed;
  for (const std::int32_t id : params.allowed_token_ids) allowed.emplace(id, 0.0f);
  for (const auto& [id, value] : bias_)
    if (const auto place = allowed.find(id); place != allowed.end()) place->second += value;
  allowed_.assign(allowed.begin(), allowed.end());
  for (const auto& word : bad_words_) longest_word_ = std::max(longest_word_, word.size());
  tail_.reserve(longest_word_);
  base_.temperature = params.temperature < kGreedyTemperature ? 0.0f : params.temperature;
  base_.top_p = params.top_p;
  base_.min_p = params.min_p;
  base_.top_k = std::max(params.top_k, 0);
  base_.repetition_penalty = params.repetition_penalty;
  base_.frequency_penalty = params.frequency_penalty;
  base_.presence_penalty = params.presence_penalty;
  base_.seed = seed;
  penalised_ = params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
  if (penalised_)
    for (const std::int32_t token : prompt) note(token, 0);
}

void Sampler::note(std::int32_t token, std::int32_t times) {
  const auto [place, added] = place_.try_emplace(token, seen_ids_.size());
  if (added) {
    seen_ids_.push_back(token);
    seen_counts_.push_back(times);
  } else {
    seen_counts_[place->second] += times;
  }
}

void Sampler::accept(std::int32_t token) {
  if (penalised_) note(token, 1);
  if (reasoning_) reasoning_->accept(token);
  if (longest_word_ < 2) return;
  if (tail_.size() == longest_word_ - 1) tail_.erase(tail_.begin());
  tail_.push_back(token);
}

std::vector<std::int32_t> Sampler::banned(int num_generated) const {
  std::vector<std::int32_t> ids;
  if (num_generated < min_tokens_) ids = banned_early_;
  for (const auto& word : bad_words_)
    if (word.size() <= tail_.size() + 1 &&
        std::equal(word.begin(), word.end() - 1, tail_.end() - (std::ssize(word) - 1)))
      ids.push_back(word.back());
  return ids;
}

void Sampler::append_biases(SampleBatch& batch, const std::vector<std::int32_t>& banned) const {
  for (const auto& [id, value] : bias_) {
    batch.bias_ids.push_back(id);
    batch.bias_values.push_back(value);
  }
  for (const std::int32_t id : banned) {
    batch.bias_ids.push_back(id);
    batch.bias_values.push_back(-std::numeric_limits<float>::infinity());
  }
}

// The allowed tokens that are not banned, with their biases. False: there are none.
bool Sampler::append_allowed(SampleBatch& batch, std::vector<std::int32_t> banned) const {
  const std::size_t before = batch.bias_ids.size();
  std::sort(banned.begin(), banned.end());
  for (const auto& [id, bias] : allowed_) {
    if (std::binary_search(banned.begin(), banned.end(), id)) continue;
    batch.bias_ids.push_back(id);
    batch.bias_values.push_back(bias);
  }
  return batch.bias_ids.size() > before;
}

void Sampler::append_row(SampleBatch& batch, int position, int num_generated) const {
  SampleRow row = base_;
  row.position = static_cast<std::uint64_t>(position);
  row.bias_begin = static_cast<std::int32_t>(batch.bias_ids.size());
  const auto forced = reasoning_ ? reasoning_->forced() : std::nullopt;
  row.only_biased = forced || !allowed_.empty();
  if (forced) {
    batch.bias_ids.push_back(*forced);
    batch.bias_values.push_back(0);
  } else if (!row.only_biased) {
    append_biases(batch, banned(num_generated));
  } else if (!append_allowed(batch, banned(num_generated))) {
    append_allowed(batch, {});  // an answer must go on: with what is allowed before what is not banned
  }
  row.bias_end = static_cast<std::int32_t>(batch.bias_ids.size());
  row.seen_begin = static_cast<std::int32_t>(batch.seen_ids.size());
  batch.seen_ids.insert(batch.seen_ids.end(), seen_ids_.begin(), seen_ids_.end());
  batch.seen_counts.insert(batch.seen_counts.end(), seen_counts_.begin(), seen_counts_.end());
  row.seen_end = static_cast<std::int32_t>(batch.seen_ids.size());
  batch.rows.push_back(row);
}

std::uint64_t drawn_seed(std::uint64_t engine_seed, std::uint64_t request_number) {
  std::uint64_t z = engine_seed ^ (request_number * 0xD1342543DE82EF95ull + 0x2545F4914F6CDD1Dull);
  z = (z ^ (z >> 33)) * 0xFF51AFD7ED558CCDull;
  z = (z ^ (z >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return z ^ (z >> 33);
}

}  // namespace octavo
