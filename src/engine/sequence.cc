#include "engine/sequence.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/request_check.h"

namespace octavo {

void LogitsJob::finish(Status status) {
  {
    const std::lock_guard lock(mutex);
    if (!outcome) outcome = std::move(status);
  }
  changed.notify_all();
}

Status LogitsJob::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return outcome.has_value(); });
  return *outcome;
}

void Sequence::extend_chain(int page_size) {
  const auto page = static_cast<std::size_t>(page_size);
  while ((chain.size() + 1) * page <= tokens.size())
    chain.push_back(
        page_hash(chain.empty() ? root : chain.back(), std::span(tokens).subspan(chain.size() * page, page)));
}

TokenEvent Sequence::accept(std::int32_t token, std::optional<TokenLogprobs> token_logprobs) {
  TokenEvent event;
  event.index = index;
  event.logprobs = std::move(token_logprobs);
  if (first_event) {
    event.cached_tokens = cached_tokens;
    event.queue_seconds = std::chrono::duration<double>(admitted - submitted).count();
    event.prompt_logprobs = std::move(prompt_rows);
    first_event = false;
  }
  if (std::binary_search(stop_ids.begin(), stop_ids.end(), token)) {
    event.stop_token = token;
    event.finish = FinishReason::stop;
    return event;
  }
  tokens.push_back(token);
  sampler.accept(token);
  event.token = token;
  if (generated() >= max_tokens) event.finish = FinishReason::length;
  return event;
}

TokenEvent Sequence::end_event(FinishReason reason, const std::string& failure) const {
  TokenEvent event;
  event.index = index;
  event.finish = reason;
  event.failure = failure;
  if (first_event) event.cached_tokens = cached_tokens;
  return event;
}

std::vector<std::shared_ptr<Sequence>> make_sequences(Request request, const SequenceSource& source,
                                                      const std::shared_ptr<TokenQueue>& queue) {
  const SamplingParams& params = request.sampling;
  std::vector<std::int32_t> stop_ids = params.stop_token_ids;
  if (!params.ignore_eos) stop_ids.insert(stop_ids.end(), source.eos.begin(), source.eos.end());
  std::sort(stop_ids.begin(), stop_ids.end());
  stop_ids.erase(std::unique(stop_ids.begin(), stop_ids.end()), stop_ids.end());

  const std::uint64_t seed = params.seed ? *params.seed : drawn_seed(source.engine_seed, source.number);
  const PageHash root = root_hash(source.cache_identity, request.cache_salt, request.adapter);
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (int index = 0; index < params.n; ++index) {
    auto sequence = std::make_shared<Sequence>();
    sequence->id = request.id.empty() ? "request-" + std::to_string(source.number) : request.id;
    sequence->priority = request.priority;
    sequence->caller = request.caller;
    sequence->number = source.number;
    sequence->index = index;
    sequence->queue = queue;
    if (index > 0) {
      sequence->leader = sequences.front();
      ++sequence->leader->awaiting;
    }
    sequence->tokens = request.prompt;
    sequence->prompt_size = static_cast<int>(request.prompt.size());
    sequence->submitted = now;
    sequence->max_tokens = answer_limit(request, source.max_model_len);
    sequence->stop_ids = stop_ids;
    sequence->sampler = Sampler(params, seed + static_cast<std::uint64_t>(index), request.prompt, stop_ids);
    sequence->logprobs = params.logprobs;
    if (index == 0 && params.prompt_logprobs) {
      sequence->prompt_logprobs = params.prompt_logprobs;
      sequence->prompt_rows.resize(request.prompt.size());
    }
    sequence->root = root;
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

}  // namespace octavo
