// EngineLoop: the engine's thread. Receives what others put into the inbox, and as long as there is work runs
//
//   plan = scheduler.plan();  result = runner.run(plan);  commit(plan, result);
//
// Statistics are published before events are pushed, so that who has read an event finds it counted. A step that fails
// ends everything: each request with one sentence, and the inbox is closed with it.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/runner.h"
#include "engine/scheduler.h"

namespace octavo {

class EngineLoop {
 public:
  // All of these are used until the destructor has returned.
  EngineLoop(const KvStore& store, Runner& runner, Inbox& inbox, const SchedulerLimits& limits, int vocab,
             int num_layers);
  ~EngineLoop();  // cancels what runs

  EngineStats stats() const;  // but for what still waits in the inbox

 private:
  struct Delivery {
    std::shared_ptr<Sequence> sequence;
    TokenEvent event;  // for a request; a logits job ends well without one
  };

  void run();
  void receive(std::vector<InboxItem>& items);
  Status step();
  void commit(const StepPlan& plan, const StepResult& result);
  void keep_prompt_rows(const StepPlan& plan, const StepResult& result);
  void accept_token(const StepPlan& plan, const StepResult& result, std::size_t row);
  void end(const std::shared_ptr<Sequence>& sequence, FinishReason reason, const std::string& failure);
  void end_all(std::vector<InboxItem>& leftover, const std::string& failure);
  void publish();
  void flush();

  const KvStore& store_;
  Runner& runner_;
  Inbox& inbox_;
  const int vocab_;
  KvLedger ledger_;
  Scheduler scheduler_;
  std::vector<Delivery> outbox_;
  EngineStats current_;  // the loop's own
  std::chrono::steady_clock::time_point counters_read_;
  mutable std::mutex stats_mutex_;
  EngineStats published_;
  std::thread thread_;
};

}  // namespace octavo
