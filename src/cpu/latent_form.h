// Which form latent attention takes, and what both of this wing's expanded ones are given.
#pragma once

#include "ops/ops.h"

namespace octavo::cpu {

// Query tokens of a sequence that share one making of keys and values.
constexpr std::int64_t kExpandedTokens = 512;

// The step's rows before its first chunk, or all of them where chunks cost less in the absorbed form: fewer products
// for all of them together.
std::int64_t cheaper_absorbed_rows(const AbsorbedRowsArgs& args);

// Our own mistakes: shapes, rules and rows that do not fit.
void check_expanded_attention(const ExpandedAttentionArgs& args);

}  // namespace octavo::cpu
