#include "server/wakeups.h"

#include <gtest/gtest.h>

#include <thread>

#include "server/worker_pool.h"

namespace octavo {
namespace {

struct QueuedLoop final : EventLoop {
  void post(std::function<void()> work) override {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
  }
  void run() {
    std::vector<std::function<void()>> now;
    {
      const std::lock_guard lock(mutex);
      now.swap(queue);
    }
    for (const auto& work : now) work();
  }
  std::mutex mutex;
  std::vector<std::function<void()>> queue;
};

struct Counter final : Wakeable {
  void woken() override { ++times; }
  int times = 0;
};

TEST(Wakeups, AStepOfManyStreamsWakesTheLoopOnce) {
  QueuedLoop loop;
  const auto wakeups = std::make_shared<Wakeups>(loop);
  const auto a = std::make_shared<Counter>(), b = std::make_shared<Counter>();
  const auto wake_a = wakeups->waker(a), wake_b = wakeups->waker(b);
  for (int i = 0; i < 5; ++i) {
    wake_a();
    wake_b();
  }
  EXPECT_EQ(loop.queue.size(), 1u);
  loop.run();
  EXPECT_EQ(a->times, 1);
  EXPECT_EQ(b->times, 1);
  wake_b();
  loop.run();
  EXPECT_EQ(b->times, 2);
}

TEST(Wakeups, WhoIsGoneIsLeftOut) {
  QueuedLoop loop;
  const auto wakeups = std::make_shared<Wakeups>(loop);
  auto target = std::make_shared<Counter>();
  const auto wake = wakeups->waker(target);
  wake();
  target.reset();
  loop.run();
  wake();
  loop.run();
}

TEST(Wakeups, NothingIsLostBetweenThreads) {
  QueuedLoop loop;
  const auto wakeups = std::make_shared<Wakeups>(loop);
  struct Reader final : Wakeable {
    void woken() override { seen = written.load(); }
    std::atomic<int> written{0};
    int seen = 0;
  };
  const auto reader = std::make_shared<Reader>();
  const auto wake = wakeups->waker(reader);
  std::thread writer([&] {
    for (int i = 1; i <= 20000; ++i) {
      reader->written = i;
      wake();
    }
  });
  while (reader->written < 20000) loop.run();
  writer.join();
  loop.run();
  EXPECT_EQ(reader->seen, 20000);
}

TEST(WorkerPool, RunsWhatFitsAndRefusesTheRest) {
  std::mutex gate;
  std::atomic<int> ran{0};
  {
    WorkerPool pool(1, 2);
    gate.lock();
    ASSERT_TRUE(pool.submit([&] {
      ++ran;
      const std::lock_guard wait(gate);
    }));
    while (ran == 0) std::this_thread::yield();
    EXPECT_TRUE(pool.submit([&] { ++ran; }));
    EXPECT_TRUE(pool.submit([&] { ++ran; }));
    EXPECT_FALSE(pool.submit([&] { ++ran; }));
    gate.unlock();
    while (ran < 3) std::this_thread::yield();
  }
  EXPECT_EQ(ran, 3);
}

}  // namespace
}  // namespace octavo
