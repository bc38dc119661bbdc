#include "engine/token_stream.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/token_queue.h"

namespace octavo {
namespace {

TokenEvent token_event(int index, std::int32_t token, std::optional<FinishReason> finish = {}) {
  TokenEvent event;
  event.index = index;
  event.token = token;
  event.finish = finish;
  return event;
}

TEST(TokenStream, EndsWhenEveryContinuationHas) {
  const auto queue = std::make_shared<TokenQueue>(2);
  const auto stream = make_token_stream(queue);
  queue->push(token_event(0, 5, FinishReason::length));
  queue->push(token_event(1, 6));
  queue->push(token_event(0, 7));  // after its end: dropped
  queue->push(token_event(1, 8, FinishReason::stop));
  std::vector<std::int32_t> tokens;
  while (auto event = stream->next()) tokens.push_back(*event->token);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{5, 6, 8}));
  EXPECT_FALSE(stream->next());
}

TEST(TokenStream, TellsNothingYetFromFinished) {
  const auto queue = std::make_shared<TokenQueue>(1);
  const auto stream = make_token_stream(queue);
  bool timed_out = false;
  EXPECT_FALSE(stream->next_for(std::chrono::milliseconds(1), timed_out));
  EXPECT_TRUE(timed_out);
  queue->push(token_event(0, 5, FinishReason::stop));
  EXPECT_TRUE(stream->next_for(std::chrono::milliseconds(1), timed_out));
  EXPECT_FALSE(timed_out);
  EXPECT_FALSE(stream->next_for(std::chrono::milliseconds(1), timed_out));
  EXPECT_FALSE(timed_out);
}

TEST(TokenStream, DroppingTheReaderCancelsAll) {
  const auto queue = std::make_shared<TokenQueue>(3);
  auto stream = make_token_stream(queue);
  stream->cancel_index(1);
  stream->cancel_index(7);  // no such continuation: nothing
  EXPECT_TRUE(!queue->cancelled(0) && queue->cancelled(1) && !queue->cancelled(2));
  stream.reset();
  EXPECT_TRUE(queue->cancelled(0) && queue->cancelled(1) && queue->cancelled(2));
}

TEST(TokenStream, AReaderOfManyIsWokenWithoutWaiting) {
  const auto queue = std::make_shared<TokenQueue>(1);
  auto stream = make_token_stream(queue);
  int woken = 0;
  stream->on_event([&] { ++woken; });
  EXPECT_EQ(woken, 0);
  queue->push(token_event(0, 5));
  EXPECT_EQ(woken, 1);
  stream->on_event([&] { woken += 10; });
  EXPECT_EQ(woken, 11) << "events that came before count";
  stream.reset();
  queue->push(token_event(0, 6));
  EXPECT_EQ(woken, 11) << "nobody is woken after the stream is gone";
}

// Mere tokens and events that are more, kept apart, come out in the order in which they went in, and whole.
TEST(TokenStream, KeepsOrderAndAllThatEventsSay) {
  const auto queue = std::make_shared<TokenQueue>(2);
  const auto stream = make_token_stream(queue);
  for (int i = 0; i < 100; ++i) {
    TokenEvent event = token_event(i % 2, i);
    if (i % 7 == 0) event.logprobs = TokenLogprobs{.logprob = -0.5f * static_cast<float>(i), .rank = i, .top = {}};
    if (i < 2) event.cached_tokens = 10 + i;
    if (i == 1) event.queue_seconds = 0.25;
    queue->push(std::move(event));
  }
  TokenEvent end;
  end.index = 1;
  end.stop_token = 9;
  end.finish = FinishReason::stop;
  queue->push(end);
  std::chrono::steady_clock::time_point before;
  for (int i = 0; i < 100; ++i) {
    const auto event = stream->next();
    ASSERT_TRUE(event);
    EXPECT_EQ(event->index, i % 2);
    EXPECT_EQ(event->token, i);
    EXPECT_EQ(event->logprobs.has_value(), i % 7 == 0);
    EXPECT_EQ(event->logprobs ? event->logprobs->rank : i, i);
    EXPECT_EQ(event->cached_tokens, i < 2 ? 10 + i : 0);
    EXPECT_EQ(event->queue_seconds, i == 1 ? 0.25 : 0);
    EXPECT_GE(event->when, before);
    before = event->when;
  }
  const auto last = stream->next();
  ASSERT_TRUE(last);
  EXPECT_FALSE(last->token);
  EXPECT_EQ(last->stop_token, 9);
  EXPECT_EQ(last->finish, FinishReason::stop);
}

TEST(TokenStream, AWaitingReaderIsWoken) {
  const auto queue = std::make_shared<TokenQueue>(1);
  const auto stream = make_token_stream(queue);
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i)
      queue->push(token_event(0, i, i == 999 ? std::optional(FinishReason::length) : std::nullopt));
  });
  int next = 0;
  while (auto event = stream->next()) EXPECT_EQ(*event->token, next++);
  EXPECT_EQ(next, 1000);
  writer.join();
}

}  // namespace
}  // namespace octavo
