#include "server/admission.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

TEST(Admission, CountsContinuationsAgainstPlacesAndQueue) {
  Admission admission({.max_running = 2, .max_queued = 3});
  EXPECT_EQ(admission.refuse(6, 0)->status, 400) << "more than there will ever be room for";
  EXPECT_EQ(admission.refuse(6, 0)->param, "n");
  EXPECT_FALSE(admission.refuse(5, 0));
  admission.enter(4);
  EXPECT_FALSE(admission.refuse(1, 2));
  const auto full = admission.refuse(2, 2);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->status, 429);
  EXPECT_GE(full->retry_after, 1);
  admission.leave(4);
  EXPECT_FALSE(admission.refuse(5, 0));
}

TEST(Admission, WhenNobodyWaitsAQueueOfNoneIsNoObstacle) {
  Admission admission({.max_running = 2, .max_queued = 0});
  EXPECT_FALSE(admission.refuse(2, 0));
  admission.enter(1);
  EXPECT_TRUE(admission.refuse(1, 1)) << "the cache holds no more than one, so another would wait";
}

TEST(Admission, QueuedTokensAreBounded) {
  Admission admission({.max_running = 2, .max_queued = 3, .max_queued_tokens = 100});
  EXPECT_FALSE(admission.refuse_tokens(1000)) << "nobody waits";
  admission.queue_tokens(60);
  EXPECT_FALSE(admission.refuse_tokens(40));
  EXPECT_EQ(admission.refuse_tokens(41)->status, 429);
}

TEST(Admission, RetryAfterFollowsTheMeasuredRate) {
  Admission admission({.max_running = 1, .max_queued = 100});
  const auto now = Admission::Clock::now();
  EXPECT_EQ(admission.retry_after(now), 5) << "nothing has ended yet";
  admission.enter(11);  // ten wait
  for (int i = 10; i > 0; --i) admission.finished(now - std::chrono::milliseconds(500 * i));
  EXPECT_EQ(admission.retry_after(now), 5) << "two a second, ten before";
  for (int i = 0; i < 64; ++i) admission.finished(now - std::chrono::milliseconds(1));
  EXPECT_EQ(admission.retry_after(now), 1);
}

}  // namespace
}  // namespace octavo
