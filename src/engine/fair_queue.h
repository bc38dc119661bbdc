// FairQueue: the sequences that wait, and whose turn it is. A smaller priority always goes first. Within a priority
// callers share the work: first is the caller for whom the fewest tokens were computed, and of its sequences the one
// that came first. So a thousand requests of one caller do not stand before another one's.
//
// A caller that begins to wait starts at the fair share, which is what one would have had who was there all the time:
// time away earns no credit. The share grows with all work, so newcomers cannot put anyone off for ever. What a caller
// had beyond its share is remembered up to a bound: nobody is punished for long for a time when nobody else came.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "engine/sequence.h"

namespace octavo {

struct FairLevel;

struct ByArrival {
  bool operator()(const std::shared_ptr<Sequence>& a, const std::shared_ptr<Sequence>& b) const {
    return a->arrival() < b->arrival();
  }
};

// One caller at one priority.
struct FairAccount {
  FairLevel* level = nullptr;
  double served = 0;  // tokens
  int present = 0;    // sequences
  std::set<std::shared_ptr<Sequence>, ByArrival> waiting = {};
};

struct FairLevel {
  std::map<std::string, FairAccount> accounts;
  int present = 0;   // callers with sequences
  double share = 0;  // tokens that a caller had who was there all the time
};

class FairQueue {
 public:
  using Node = decltype(FairAccount::waiting)::node_type;

  // From now on, or no longer, the sequence is there: it waits, is held back or runs.
  void enter(Sequence& sequence);
  void leave(Sequence& sequence);

  // The sequence has entered.
  void push(const std::shared_ptr<Sequence>& sequence);
  void push(Node node);
  // An empty node if it does not wait. A node can be put elsewhere without any memory being taken.
  Node extract(const std::shared_ptr<Sequence>& sequence);
  std::shared_ptr<Sequence> front() const;  // null: nobody waits
  std::size_t size() const { return size_; }

  // The sequence's tokens up to this one are computed now; none counts twice.
  static void charge(Sequence& sequence, int first, int end);
  static double served(const Sequence& sequence) { return sequence.account->served; }

  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [priority, level] : levels_)
      for (const auto& [name, account] : level.accounts)
        for (const auto& sequence : account.waiting) visit(sequence);
  }

 private:
  static void begin_waiting(FairAccount& account);
  static void forget(FairLevel& level);

  std::map<int, FairLevel> levels_;
  std::size_t size_ = 0;
};

}  // namespace octavo
