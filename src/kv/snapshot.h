// Snapshot: what a sequence's recurrent state was after some whole pages of tokens, in a record that nobody writes any
// more. A sequence that leaves one behind or begins from one goes on in another record, into which the snapshot is
// copied before its next token.
//
// That sequences run goes before that beginnings are kept: where no other record is to be had, a snapshot that nobody
// shares is given up and written on. So a pool with a record for each sequence never has to keep one back for these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace octavo {

struct Snapshot {
  std::int32_t record = kSinkPage;  // held by the sequence; kSinkPage: none
  int num_pages = 0;                // whole pages of tokens before it
};

// `written`: the record that the sequence's steps write, if it has one.
bool needs_record(const PagePool& pool, const std::vector<std::int32_t>& written, const Snapshot& snapshot);
// There must be a takeable record if one is needed. Throws before anything has changed.
void make_writable(PagePool& pool, std::vector<std::int32_t>& written, Snapshot& snapshot);
// Names it as the pages before it are named, as soon as those names are known.
void publish(PagePool& pool, const Snapshot& snapshot, std::span<const PageHash> chain);
void release(PagePool& pool, Snapshot& snapshot);

}  // namespace octavo
