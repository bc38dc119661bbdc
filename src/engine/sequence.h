// Sequence: one continuation on its way: its tokens so far, how many of them the cache holds, how the next one is
// chosen, and who waits for it. One state serves all phases: a prompt, an answer in progress, and what a preempted
// sequence has to compute again are all "tokens that the cache does not hold yet".
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/token_queue.h"
#include "kv/ledger.h"
#include "kv/prefix.h"

namespace octavo {

// Logits of every position of one sequence, for evaluation. Filled by the engine's thread, awaited by another.
struct LogitsJob {
  std::vector<float> logits;  // [tokens - first_row, vocab]
  int first_row = 0;          // rows before this position are not wanted
  int decode_from = 0;        // tokens from here on are fed one a step
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Status> outcome;  // guarded by mutex; absent while the work goes on

  void finish(Status status);
  Status wait();
};

struct FairAccount;  // engine/fair_queue.h

struct Sequence {
  std::string id;
  int priority = 0;
  std::string caller;                 // who asked
  std::uint64_t number = 0;           // of the request, in order of arrival
  int index = 0;                      // which of its n
  std::uint64_t turn = 0;             // in order of first admission, from 1
  std::shared_ptr<TokenQueue> queue;  // null for a logits job
  std::shared_ptr<LogitsJob> job;     // null for a request
  std::shared_ptr<Sequence> leader;   // the continuation that computes the shared prompt; null: this one does

  std::vector<std::int32_t> tokens;  // the prompt, then what was generated
  int prompt_size = 0;
  int max_tokens = 0;
  std::vector<std::int32_t> stop_ids;  // sorted
  Sampler sampler;
  std::optional<int> logprobs;
  std::optional<int> prompt_logprobs;
  std::vector<TokenLogprobs> prompt_rows;  // entry i: of prompt token i

  PageHash root;
  std::vector<PageHash> chain;  // names of the full pages of `tokens`

  SequenceId cache = -1;    // -1: holds no pages
  int computed = 0;         // tokens whose K and V are in the cache once the device has done what it was given
  int steps_under_way = 0;  // launched and not settled
  int drawn_row = -1;       // of the last of them: the sampled row that draws the next token; -1: none does
  int rows_done = 0;        // positions whose extra row (prompt logprobs, logits) was delivered
  int cached_tokens = 0;    // of the prompt, found in the cache at first admission
  int shared_pages = 0;     // found in the cache when it was let in, without a snapshot of its states at their end
  std::chrono::steady_clock::time_point submitted, admitted;  // admitted: for the first time
  FairAccount* account = nullptr;                             // the caller's, while the scheduler has the sequence
  int charged = 0;                                            // tokens that the caller's account was charged with
  int awaiting = 0;                                           // of a leader: followers that were not let in yet
  bool prompt_done = false;                                   // the whole prompt was in the cache once
  bool ended = false;
  bool first_event = true;

  int size() const { return static_cast<int>(tokens.size()); }
  int generated() const { return size() - prompt_size; }
  // With the token that is being drawn, as if it does not end the sequence.
  int planned_size() const { return size() + (drawn_row >= 0 ? 1 : 0); }
  int planned_generated() const { return planned_size() - prompt_size; }
  // Tokens to compute; none once the last token that there may be is being drawn.
  int remaining() const { return drawn_row >= 0 && planned_generated() >= max_tokens ? 0 : planned_size() - computed; }
  bool decoding() const { return planned_generated() > 0 && remaining() == 1; }
  // Positions below this need a row of logits of their own.
  int extra_rows_end() const { return job ? size() : prompt_logprobs ? prompt_size - 1 : 0; }
  bool cancelled() const { return queue && queue->cancelled(index); }

  bool admitted_before() const { return turn > 0; }
  std::tuple<std::uint64_t, int> arrival() const { return {number, index}; }

  // Names all full pages of the tokens there are.
  void extend_chain(int page_size);

  // Takes the token that was drawn. The event says what happened, and whether this was the last.
  TokenEvent accept(std::int32_t token, std::optional<TokenLogprobs> token_logprobs);
  // The last event of a sequence that ends for another reason than its tokens.
  TokenEvent end_event(FinishReason reason, const std::string& failure) const;
};

struct SequenceSource {
  std::uint64_t number = 0;
  std::uint64_t engine_seed = 0;
  int max_model_len = 0;
  std::vector<std::int32_t> eos;
  std::string cache_identity;
};

// The n continuations of a checked request. Each but the first waits for the first one's prompt.
std::vector<std::shared_ptr<Sequence>> make_sequences(Request request, const SequenceSource& source,
                                                      const std::shared_ptr<TokenQueue>& queue);

}  // namespace octavo
