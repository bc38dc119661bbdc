// How ranks share what a model has several of, and the sentences for what they cannot share.
#pragma once

#include <string>

#include "checkpoint/binder.h"
#include "model/spec.h"

namespace octavo {

// An even share; one where there are fewer heads than ranks: neighbouring ranks then hold the same head.
int heads_of_rank(int heads, RankOf rank);
// A layer with the heads that a rank has of it.
LayerSpec heads_of_rank(LayerSpec layer, RankOf rank);

// Errors say how many there are. what: "query heads".
Status check_even(RankOf rank, int count, const std::string& what);
// As heads_of_rank() shares them.
Status check_heads(RankOf rank, int heads, const std::string& what);

}  // namespace octavo
