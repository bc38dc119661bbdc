// EngineLoop: the engine's thread. Receives what others put into the inbox, and as long as there is work runs
//
//   plan = scheduler.plan();  launch(plan);  commit(plan, what it drew);
//
// On a device that works by itself the commit of a step comes after the launch of the next, so the host's work costs no
// time: the next plan names the tokens that are being drawn by their place. What a sequence computes beyond its end is
// thrown away.
//
// Statistics are published before events are pushed, so that who has read an event finds it counted. Where no memory is
// found to plan or launch a step, one request fails and the others go on. A step that fails ends everything: each
// request with one sentence, and the inbox is closed with it.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/runners.h"
#include "engine/scheduler.h"
#include "engine/thread_clock.h"

namespace octavo {

class EngineLoop {
 public:
  // All of these are used until the destructor has returned.
  // overlaps: whether a step is planned while the one before is under way.
  // stores: of each rank; all have the same pages.
  EngineLoop(const std::vector<std::unique_ptr<KvStore>>& stores, Runners& runners, Inbox& inbox,
             const SchedulerLimits& limits, int vocab, int num_layers, bool overlaps);
  ~EngineLoop();  // cancels what runs

  EngineStats stats() const;  // but for what still waits in the inbox

 private:
  using CounterDownloads = std::vector<std::unique_ptr<Download>>;  // of each rank; empty: none

  struct Delivery {
    std::shared_ptr<Sequence> sequence;
    TokenEvent event;  // for a request; a logits job ends well without one
  };

  // A step that was launched and whose results have not been looked at.
  struct Flight {
    StepPlan plan;
    LaunchedStep step;
    CounterDownloads counters;  // the cache's, every now and then
  };

  void run();
  Status receive(std::vector<InboxItem>& items);
  Status step();
  Status give_one_up();
  Status launch(StepPlan plan);
  Status land();
  void commit(const StepPlan& plan, StepResult& result);
  void keep_prompt_rows(const StepPlan& plan, StepResult& result);
  void accept_token(const StepPlan& plan, const StepResult& result, std::size_t row);
  void end(const std::shared_ptr<Sequence>& sequence, FinishReason reason, const std::string& failure);
  void end_all(std::vector<InboxItem>& leftover, const std::string& failure);
  void measure_step(const StepPlan& plan);
  void read_counters(CounterDownloads& counters);
  CounterDownloads begin_counters() const;
  void publish();
  void flush();

  const std::vector<std::unique_ptr<KvStore>>& stores_;
  const StoreSpec& cache_;  // what all of them are, but for their scales
  Runners& runners_;
  Inbox& inbox_;
  const int vocab_;
  KvLedger ledger_;
  Scheduler scheduler_;
  const bool overlaps_;
  std::optional<Flight> flight_;
  std::vector<Delivery> outbox_;
  EngineStats current_;  // the loop's own
  ThreadClock host_;     // stopped while the device's work is waited for, or done by this thread
  std::chrono::steady_clock::time_point counters_read_;
  std::chrono::steady_clock::time_point step_began_;  // where the one before ended, or work came
  double recent_prefill_tokens_ = 0, recent_prefill_seconds_ = 0;
  mutable std::mutex stats_mutex_;
  EngineStats published_;
  std::thread thread_;
};

}  // namespace octavo
