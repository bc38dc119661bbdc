#include "base/rendezvous.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/on_threads.h"

namespace octavo {
namespace {

// Plain numbers, written by one thread and read by all: each meeting hands them over.
TEST(Rendezvous, WhatWasWrittenBeforeAMeetingIsReadAfterIt) {
  constexpr int kThreads = 3;
  Rendezvous meeting(kThreads);
  std::vector<int> written(kThreads);
  std::vector<int> wrong(kThreads);
  on_threads(kThreads, [&](int self) {
    const auto own = static_cast<std::size_t>(self);
    for (int round = 1; round <= 200; ++round) {
      written[own] = round;
      if (!meeting.meet()) ++wrong[own];
      for (const int number : written) wrong[own] += number == round ? 0 : 1;
      if (!meeting.meet()) ++wrong[own];
    }
  });
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

TEST(Rendezvous, NobodyWaitsForOneWhoGaveUp) {
  constexpr int kThreads = 4;
  Rendezvous meeting(kThreads);
  for (int round = 0; round < 40; ++round) {
    std::vector<int> met(kThreads);
    on_threads(kThreads, [&](int self) {
      if (self == round % kThreads) return meeting.give_up();
      for (int i = 0; i < 3; ++i) met[static_cast<std::size_t>(self)] += meeting.meet() ? 1 : 0;
    });
    EXPECT_EQ(met, std::vector<int>(kThreads));
    meeting.restore();
    on_threads(kThreads, [&](int self) { met[static_cast<std::size_t>(self)] = meeting.meet() ? 1 : 0; });
    EXPECT_EQ(met, std::vector<int>(kThreads, 1));
  }
}

}  // namespace
}  // namespace octavo
