// CacheGroup: layers whose tokens live equally long, so that one page table serves them all.
//
//   full    every token of the sequence
//   window  the last `window` tokens; pages that left the window go back
//   state   a record of fixed size per sequence (recurrent layers); a page is one record, snapshots are further records
//
// A page number means one page in every layer of the group; each layer has its own format and bytes. So a layer that skips
// the 8-bit dtype shares tables, prefix hits and accounting with the others (their pages just weigh differently).
#pragma once

#include <cstdint>
#include <vector>

#include "kv/format.h"

namespace octavo {

enum class Lifetime : std::uint8_t { full, window, state };

struct LayerCache {
  int layer = 0;  // index in the model
  KvFormat format;
};

struct CacheGroup {
  Lifetime lifetime = Lifetime::full;
  int window = 0;                     // keys visible to a query, itself included; window groups only
  std::vector<LayerCache> layers;     // owners of a cache only
  // State groups only: the float32 numbers of each part of a layer's record. A record is kept in full precision.
  std::vector<std::int64_t> state_parts = {};
};

std::int64_t bytes_per_token(const CacheGroup& group);                // all layers
std::int64_t state_bytes(const CacheGroup& group);                    // of a sequence in one layer
std::int64_t bytes_per_page(const CacheGroup& group, int page_size);  // all layers; of a state group: one record

// Pages of a sequence of num_tokens that are alive at once, when up to step_tokens are added in one step.
std::int64_t live_pages(const CacheGroup& group, std::int64_t num_tokens, int page_size, int step_tokens);

}  // namespace octavo
