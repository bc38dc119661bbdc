#include "engine/inbox.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

InboxItem item_of(int n) {
  InboxItem item;
  for (int i = 0; i < n; ++i) item.sequences.push_back(std::make_shared<Sequence>());
  return item;
}

TEST(Inbox, CountsWhatArrivedAndWhatStillWaits) {
  Inbox inbox(5);
  EXPECT_TRUE(inbox.put(item_of(3)));
  EXPECT_EQ(inbox.put(item_of(3)).error().message(),
            "the queue is full: 3 of 5 places are taken and this request needs 3; try again later");
  std::vector<InboxItem> items;
  EXPECT_TRUE(inbox.take(items, true));
  EXPECT_EQ(items.size(), 1u);
  EXPECT_EQ(inbox.queued(), 3);
  EXPECT_FALSE(inbox.put(item_of(3)));
  inbox.set_waiting(1);
  EXPECT_TRUE(inbox.put(item_of(3)));
  EXPECT_EQ(inbox.queued(), 4);
}

TEST(Inbox, AClosedOneSaysWhyAndHandsOutTheRest) {
  Inbox inbox(5);
  EXPECT_TRUE(inbox.put(item_of(2)));
  inbox.close("it broke");
  inbox.close("again");
  EXPECT_EQ(inbox.put(item_of(1)).error().message(), "it broke");
  EXPECT_EQ(inbox.put(item_of(1)).error().kind(), ErrorKind::unavailable);
  std::vector<InboxItem> items;
  EXPECT_FALSE(inbox.take(items, true));
  EXPECT_EQ(items.size(), 1u);
}

}  // namespace
}  // namespace octavo
