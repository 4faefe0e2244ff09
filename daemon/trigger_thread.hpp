// SPDX-License-Identifier: Apache-2.0
// The trigger thread: looks at the machine's metrics ten times a second, hears the kernel's trigger events, keeps the
// rules. It decides and waits for nobody; the snapshots that it wants are taken by others, whom it tells. Everybody
// else hands it a task.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/attached.hpp"
#include "daemon/task_queue.hpp"
#include "libcore/config/config.hpp"
#include "libcore/trigger/pass_interval.hpp"
#include "libcore/trigger/rules.hpp"
#include "libcore/trigger/sampler.hpp"

namespace flight {

class TriggerThread {
 public:
  struct Setup {
    std::vector<TriggerConfig> triggers;
    StormGuardConfig guard;
    std::string saved;    // what `keep` was given in an earlier life; empty: there was none
    std::string boot_id;  // of this boot
    std::function<std::shared_ptr<Attached>()> attached;  // the newest set of rings
  };
  // All of it is called on the trigger thread.
  struct Told {
    std::function<void(Decision)> fire;
    std::function<void(SuppressedWindow)> suppressed;
    std::function<void(std::string state)> keep;  // seldom: what is to outlive this process
  };
  // Of the configured triggers those that cannot work here: an error if an admin wrote one of them, else warnings.
  [[nodiscard]] static Result<std::vector<std::string>> check(const std::vector<TriggerConfig>& triggers);
  // An error: `saved` was of no use, and everything begins afresh; the thread runs all the same.
  [[nodiscard]] static Result<std::unique_ptr<TriggerThread>> start(Setup setup, Told told);
  TriggerThread(const TriggerThread&) = delete;
  TriggerThread& operator=(const TriggerThread&) = delete;
  ~TriggerThread();  // stop()

  // Any thread. Each `done` is called on the trigger thread; after stop(), at once and with ECANCELED.
  void external(std::string trigger, std::string reason, bool test, std::function<void(Result<Decision>)> done);
  void enable(std::string trigger, bool on, std::function<void(Result<void>)> done);
  struct Listed {
    TriggerRow row;
    std::string kind;  // "metric", "event", "external"
  };
  void rows(std::function<void(std::vector<Listed>)> done);
  void note_snapshot(std::string trigger, std::string id);
  void note_lost(std::string trigger, std::string why);
  void set_recording(bool recording);
  void replace(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard);

  // Any thread but this one; waits for the answer.
  [[nodiscard]] std::optional<SidecarMetrics> metrics();

  // Any thread: how many looks at the metrics there were; it stands still only if the thread does.
  [[nodiscard]] std::uint64_t passes() const { return passes_; }

  // Ends the thread; not before nobody asks for metrics() any more. Windows that are open are told, and the last state.
  void stop();
  // Why `saved` was of no use; empty: it was.
  [[nodiscard]] const std::string& saved_error() const { return saved_error_; }

 private:
  TriggerThread(Setup setup, Told told, UniqueFd wake);
  void run();
  void wait_for_work(EventTime until_ns);
  void follow_rings();
  void hear(EventTime now_ns);
  void look(EventTime now_ns);
  void act(const Decision& decision);
  void keep(EventTime now_ns);

  std::function<std::shared_ptr<Attached>()> attached_of_;
  std::string boot_id_;
  Told told_;
  TaskQueue tasks_;
  std::vector<TriggerConfig> triggers_;
  std::shared_ptr<Attached> attached_;  // whose rings are polled
  TriggerRings rings_;
  EventTime heard_ns_ = 0;  // when they had something last
  Sampler sampler_;
  TriggerRules rules_;
  PassInterval interval_;
  std::string saved_error_;
  bool changed_ = false;  // since the state was told
  EventTime kept_ns_ = 0;
  std::atomic<std::uint64_t> passes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace flight
