// Snapshot points: after which tokens of a sequence a snapshot of its recurrent states is left behind, for sequences
// that begin alike, for the next turn of a conversation and for itself after a preemption. Chunks of prompts end there.
//
// Not after every page: a snapshot weighs as much as the cache of thousands of tokens (157 MB beside 65,536 bytes a
// token, in a model of 27 billion weights), and every point costs a prompt a step. A sequence of n tokens has about
// log2(n / 256) of them:
//   - four pages (256 tokens of the usual 64 a page) and each time twice as many: of n >= 256 shared tokens no more
//     than half are computed again;
//   - the last whole page before a prompt's end, where the same prompt or a longer one begins;
//   - where the pages end that were found cached when it was let in, though no snapshot was: that beginning is shared.
#pragma once

#include "engine/sequence.h"

namespace octavo {

// Prompts that are no longer than this leave nothing behind of their own accord.
int first_snapshot(int page_size);
// The first of its points beyond `after` tokens. There is always one.
int next_snapshot(const Sequence& sequence, int after, int page_size);

}  // namespace octavo
