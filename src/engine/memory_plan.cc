#include "engine/memory_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/strings.h"

namespace octavo {
namespace {

// Without --kv-cache-memory-bytes a host shared with others is not filled: room for this many long sequences is enough,
// and never more than a quarter of the memory, unless one sequence needs it: then up to half, or all if it was asked
// for.
constexpr int kAutoSequences = 16;
constexpr int kAutoShare = 4;
constexpr int kAutoShareForOne = 2;
// Snapshots of recurrent states: so many for each sequence, and no more than this part of the cache. One of them weighs
// as much as thousands of tokens, and spares the next sequence no more than it was asked to compute twice.
constexpr int kSnapshotsPerSequence = 4;
constexpr int kSnapshotShare = 8;
// Of a device's own memory: what libraries and recordings may take later, beside what was seen.
constexpr std::int64_t kSpareBytes = std::int64_t{256} << 20;

// 8192 -> "8,192".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string bytes_text(std::int64_t bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0)));
}

// 0.9 -> "90%".
std::string share_text(float share) {
  const int tenths = static_cast<int>(std::lround(share * 1000));
  const std::string whole = std::to_string(tenths / 10);
  return (tenths % 10 == 0 ? whole : whole + "." + std::to_string(tenths % 10)) + "%";
}

// The arithmetic of pages: all of it goes through here.
class PageCounts {
 public:
  explicit PageCounts(const MemoryRequest& request) : request_(request) {}

  std::int64_t page_bytes(const CacheGroup& group) const { return bytes_per_page(group, request_.page_size); }

  // Pages, without the sink, with which num_seqs sequences of `length` tokens can run at once. One of them may be
  // computing a prompt in whole steps; the others decode.
  std::int64_t pages(const CacheGroup& group, std::int64_t num_seqs, std::int64_t length) const {
    const std::int64_t first = live_pages(group, length, request_.page_size, request_.max_num_batched_tokens);
    const std::int64_t other = live_pages(group, length, request_.page_size, 1);
    return first + (num_seqs - 1) * other;
  }
  std::int64_t bytes(Lifetime lifetime, std::int64_t num_seqs, std::int64_t length) const {
    std::int64_t sum = 0;
    for (const CacheGroup& group : request_.groups)
      if (group.lifetime == lifetime) sum += (pages(group, num_seqs, length) + 1) * page_bytes(group);
    return sum;
  }
  // Windows and states: what a sequence holds however long it is.
  std::int64_t bounded_bytes(std::int64_t num_seqs, std::int64_t length) const {
    return bytes(Lifetime::window, num_seqs, length) + bytes(Lifetime::state, num_seqs, length);
  }
  std::int64_t all_bytes(std::int64_t num_seqs, std::int64_t length) const {
    return bytes(Lifetime::full, num_seqs, length) + bounded_bytes(num_seqs, length);
  }

  // Of one record in all state groups; 0: there are none.
  std::int64_t record_bytes() const {
    std::int64_t sum = 0;
    for (const CacheGroup& group : request_.groups)
      if (group.lifetime == Lifetime::state) sum += page_bytes(group);
    return sum;
  }
  // Snapshots beside so many sequences: none that would take the room of the full group's one long sequence.
  std::int64_t snapshots(std::int64_t budget, std::int64_t num_seqs, std::int64_t length) const {
    if (!request_.prefix_caching || record_bytes() == 0) return 0;
    const std::int64_t left = budget - bounded_bytes(num_seqs, length) - bytes(Lifetime::full, 1, length);
    const std::int64_t fits = std::min(left, budget / kSnapshotShare) / record_bytes();
    return std::clamp<std::int64_t>(fits, 0, kSnapshotsPerSequence * num_seqs);
  }

  // The longest sequence that fits into so many bytes, at most `most`; 0: none.
  std::int64_t longest(std::int64_t bytes, std::int64_t most) const {
    std::int64_t fits = 0;
    std::int64_t too_long = most + 1;
    while (too_long - fits > 1) {
      const std::int64_t middle = fits + (too_long - fits) / 2;
      (all_bytes(1, middle) <= bytes ? fits : too_long) = middle;
    }
    return fits;
  }

 private:
  const MemoryRequest& request_;
};

struct Budget {
  std::int64_t bytes = 0;
  std::string reason;
};

Result<Budget> choose_budget(const MemoryRequest& request, const PageCounts& counts) {
  if (request.kv_cache_bytes) return Budget{*request.kv_cache_bytes, "--kv-cache-memory-bytes"};
  if (!request.fill_reason.empty()) return Budget{request.available_bytes, request.fill_reason};
  const std::int64_t length = request.max_model_len.value_or(request.model_positions);
  const std::int64_t sequences = std::min(request.max_num_seqs, kAutoSequences);
  const std::int64_t snapshots = request.prefix_caching ? kSnapshotsPerSequence * sequences : 0;
  const std::int64_t wanted = counts.all_bytes(sequences, length) + snapshots * counts.record_bytes();
  const std::int64_t share = request.available_bytes / kAutoShare;
  if (wanted <= share)
    return Budget{wanted, "enough for " + std::to_string(sequences) + (sequences == 1 ? " sequence" : " sequences") +
                              " of " + grouped(length) + " tokens"};
  const std::int64_t one = counts.all_bytes(1, length);
  if (one <= share) return Budget{share, "a quarter of the " + bytes_text(request.available_bytes) + " available"};
  const std::int64_t more =
      request.max_model_len ? request.available_bytes : request.available_bytes / kAutoShareForOne;
  if (one <= more) return Budget{one, "enough for one sequence of " + grouped(length) + " tokens"};
  if (!request.max_model_len) return Budget{more, "half of the " + bytes_text(request.available_bytes) + " available"};
  return Error("one request of --max-model-len " + std::to_string(length) + " needs " + bytes_text(one) + " (" +
                   std::to_string(one) + " bytes) of KV cache, but only " + bytes_text(request.available_bytes) +
                   " are available: at most " + std::to_string(counts.longest(request.available_bytes, length)) +
                   " tokens fit, or twice as many in an 8-bit --kv-cache-dtype",
               ErrorKind::exhausted);
}

Status choose_length(const MemoryRequest& request, const PageCounts& counts, const Budget& budget, MemoryPlan& plan) {
  const std::int64_t most = request.max_model_len.value_or(request.model_positions);
  const std::int64_t fits = counts.longest(budget.bytes, most);
  const std::string needs =
      bytes_text(counts.all_bytes(1, most)) + " (" + std::to_string(counts.all_bytes(1, most)) + " bytes)";
  if (request.max_model_len && fits < most)
    return Error("one request of --max-model-len " + std::to_string(most) + " needs " + needs + " of KV cache, but " +
                     budget.reason + " gives " + std::to_string(budget.bytes) + " bytes: at most " +
                     std::to_string(fits) + " tokens fit",
                 ErrorKind::exhausted);
  if (fits < std::min<std::int64_t>(most, 2))
    return Error("the KV cache of " + std::to_string(budget.bytes) + " bytes (" + budget.reason +
                     ") does not hold a single page; " + std::to_string(counts.all_bytes(1, 2)) +
                     " bytes are the least, and " + needs + " hold the model's whole context",
                 ErrorKind::exhausted);
  plan.max_model_len = static_cast<int>(fits);
  plan.length_reason = request.max_model_len ? "--max-model-len"
                       : fits == most        ? "the model's"
                                             : "what fits into the KV cache";
  return {};
}

Status check_request(const MemoryRequest& request) {
  check(!request.groups.empty() && request.page_size > 0, "a model with a cache");
  if (request.model_positions < 1 || request.model_positions > std::numeric_limits<std::int32_t>::max())
    return Error("the model's context length of " + std::to_string(request.model_positions) +
                 " positions is not supported");
  if (!request.max_model_len) return {};
  if (*request.max_model_len < 1)
    return Error("--max-model-len " + std::to_string(*request.max_model_len) + ": it must be at least 1");
  if (*request.max_model_len > request.model_positions)
    return Error("--max-model-len " + std::to_string(*request.max_model_len) + " is more than the " +
                 std::to_string(request.model_positions) +
                 " positions that the model was made for; --rope-scaling or --hf-overrides can extend them");
  return {};
}

// Slots are numbered in 32 bits.
std::int32_t bounded_pages(std::int64_t pages, int page_size) {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max() / page_size;
  return static_cast<std::int32_t>(std::min(pages, most));
}

// The most sequences whose windows and states take no more than half of the budget and leave the full group its one
// long sequence.
std::int64_t bounded_sequences(const MemoryRequest& request, const PageCounts& counts, std::int64_t budget,
                               std::int64_t length) {
  for (std::int64_t n = request.max_num_seqs; n > 1; --n) {
    const std::int64_t bytes = counts.bounded_bytes(n, length);
    if (bytes <= budget / 2 && budget - bytes >= counts.bytes(Lifetime::full, 1, length)) return n;
  }
  return 1;
}

std::string derive(const MemoryRequest& request, const MemoryPlan& plan, const Budget& budget, std::int64_t sequences,
                   std::int64_t snapshots) {
  std::string text;
  for (std::size_t g = 0; g < request.groups.size(); ++g) {
    const CacheGroup& group = request.groups[g];
    const std::int64_t pages = plan.num_pages[g] - 1;
    if (!text.empty()) text += "; ";
    if (group.lifetime == Lifetime::full) {
      const std::int64_t tokens = pages * request.page_size;
      text += grouped(pages) + " pages x " + std::to_string(request.page_size) + " tokens = " + grouped(tokens) +
              " tokens; " + bytes_text(tokens * plan.bytes_per_token) + " = " + grouped(tokens) + " x " +
              grouped(plan.bytes_per_token) + " bytes";
    } else {
      text += (group.lifetime == Lifetime::state
                   ? "states: " + grouped(pages) + " records x "
                   : "window " + std::to_string(group.window) + ": " + grouped(pages) + " pages x ") +
              grouped(bytes_per_page(group, request.page_size)) + " bytes for " + std::to_string(sequences) +
              (sequences == 1 ? " sequence" : " sequences");
      if (group.lifetime == Lifetime::state && snapshots > 0)
        text += " and " + std::to_string(snapshots) + (snapshots == 1 ? " snapshot" : " snapshots");
    }
  }
  return text + " (" + budget.reason + ")";
}

}  // namespace

Result<CacheRoom> room_for_cache(const DeviceRoom& room) {
  const auto allowed =
      static_cast<std::int64_t>(static_cast<double>(room.share) * static_cast<double>(room.total_bytes));
  const std::int64_t by_share = allowed - room.held_bytes - room.step_bytes;
  const std::int64_t by_others = room.free_bytes - room.step_bytes - kSpareBytes;
  CacheRoom left{.bytes = std::min(by_share, by_others), .derivation = {}};
  if (by_share <= by_others)
    left.derivation = share_text(room.share) + " of the device's " + bytes_text(room.total_bytes) + ", less " +
                      bytes_text(room.held_bytes) + " held";
  else
    left.derivation =
        bytes_text(room.free_bytes) + " free on the device, less " + bytes_text(kSpareBytes) + " to spare";
  left.derivation += " and " + bytes_text(room.step_bytes) + " that the largest steps take";
  if (left.bytes > 0) return left;
  return Error("nothing is left for the KV cache: " + left.derivation +
                   (by_share <= by_others ? "; raise --gpu-memory-utilization" : "; free memory on the device") +
                   ", or lower --max-num-batched-tokens or --max-num-seqs",
               ErrorKind::exhausted);
}

Result<MemoryPlan> plan_memory(const MemoryRequest& request) {
  OCTAVO_TRY(check_request(request));
  const PageCounts counts(request);
  OCTAVO_TRY(const Budget budget, choose_budget(request, counts));
  MemoryPlan plan;
  OCTAVO_TRY(choose_length(request, counts, budget, plan));

  const std::int64_t sequences = bounded_sequences(request, counts, budget.bytes, plan.max_model_len);
  const std::int64_t snapshots = counts.snapshots(budget.bytes, sequences, plan.max_model_len);
  const std::int64_t rest =
      budget.bytes - counts.bounded_bytes(sequences, plan.max_model_len) - snapshots * counts.record_bytes();
  bool has_full = false;
  for (const CacheGroup& group : request.groups) {
    std::int64_t pages = counts.pages(group, sequences, plan.max_model_len) + 1;
    if (group.lifetime == Lifetime::state) pages += snapshots;
    if (group.lifetime == Lifetime::full) {
      pages = rest / counts.page_bytes(group);
      has_full = true;
      plan.bytes_per_token = bytes_per_token(group);
    }
    plan.num_pages.push_back(bounded_pages(pages, request.page_size));
    plan.bytes += plan.num_pages.back() * counts.page_bytes(group);
    if (group.lifetime == Lifetime::full)
      plan.capacity_tokens = std::int64_t{plan.num_pages.back() - 1} * request.page_size;
  }
  if (!has_full) plan.capacity_tokens = sequences * plan.max_model_len;
  plan.derivation = derive(request, plan, budget, sequences, snapshots);
  return plan;
}

}  // namespace octavo
