// MemoryPlan: how many pages each cache group gets, and with that the one number that everything else is derived from:
// how many tokens fit. Computed here, once, from bytes, and printed with its derivation.
//
// Promises that one sequence of max_model_len always fits. Refuses a --max-model-len that does not, naming the bytes it
// needs. Memory that the host shares is not filled; a device's own is, as far as it may be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/group.h"

namespace octavo {

struct MemoryRequest {
  const std::vector<CacheGroup>& groups;
  int page_size = 64;
  std::int64_t model_positions = 0;
  std::optional<std::int64_t> max_model_len;   // as the flag says; absent: auto
  std::optional<std::int64_t> kv_cache_bytes;  // as the flag says; absent: auto
  int max_num_seqs = 64;
  int max_num_batched_tokens = 2048;
  bool prefix_caching = false;       // records of states beyond those of sequences keep snapshots
  std::int64_t available_bytes = 0;  // what weights and activations leave
  std::string fill_reason = {};      // the derivation of available_bytes, where auto takes all of them
};

// What a process may take of a device's own memory, and has taken.
struct DeviceRoom {
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;  // on the whole device
  std::int64_t held_bytes = 0;  // by this process
  std::int64_t step_bytes = 0;  // what the largest steps will take
  float share = 0.9f;           // --gpu-memory-utilization
};
struct CacheRoom {
  std::int64_t bytes = 0;
  std::string derivation;
};
// An error where nothing is left.
Result<CacheRoom> room_for_cache(const DeviceRoom& room);

struct MemoryPlan {
  std::vector<std::int32_t> num_pages;  // by group, the sink included
  int max_model_len = 0;
  std::string length_reason;
  std::int64_t capacity_tokens = 0;
  std::int64_t bytes_per_token = 0;  // of the full group
  std::int64_t bytes = 0;            // of all pages
  std::string derivation;
};

Result<MemoryPlan> plan_memory(const MemoryRequest& request);

}  // namespace octavo
