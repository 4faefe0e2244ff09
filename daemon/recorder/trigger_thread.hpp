// SPDX-License-Identifier: Apache-2.0
// The trigger thread: samples the metrics ten times a second (2.5 times while all values are low), reads the kernel's
// trigger events, evaluates the rules. It only decides and never waits; callbacks take the snapshots. Other threads
// post tasks to it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/recorder/attached.hpp"
#include "daemon/recorder/metric_troubles.hpp"
#include "libcore/base/task_queue.hpp"
#include "libcore/base/waiting_clock.hpp"
#include "libcore/config/config.hpp"
#include "libcore/trigger/pass_interval.hpp"
#include "libcore/trigger/rules.hpp"
#include "libcore/trigger/sampler.hpp"

namespace flight::daemon {

class TriggerThread {
 public:
  struct Setup {
    std::vector<TriggerConfig> triggers;
    StormGuardConfig guard;
    std::string saved;    // the last argument of `keep` in an earlier flightd; empty: there was none
    std::string boot_id;  // of this boot
    std::function<std::shared_ptr<Attached>()> attached;    // the newest set of rings
    std::function<void()> look_at_clock = [] {};            // ClockWatch::look
    const WaitingClock& clock = WaitingClock::monotonic();  // each posted task makes the thread look at it
  };
  // All callbacks run on the trigger thread.
  struct Callbacks {
    std::function<void(Decision)> fire;
    std::function<void(SuppressedWindow)> suppressed;
    std::function<void(std::string state)> keep;  // called rarely; the state for the next flightd
  };
  // Checks the configured triggers. One that cannot work on this machine is an error if an administrator wrote it,
  // otherwise a note. A source that fails for another reason is tried again by the thread, which reports it.
  [[nodiscard]] static Result<std::vector<std::string>> check(const std::vector<TriggerConfig>& triggers);
  // If `saved` is unusable, counting starts again, and saved_error() has the reason.
  [[nodiscard]] static Result<std::unique_ptr<TriggerThread>> start(Setup setup, Callbacks callbacks);
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
  void note_lost(std::string trigger, std::string why, bool test = false);
  void note_recording(std::string trigger, std::string first_id);
  void note_unrecorded(std::string trigger, std::string why);
  void set_recording(bool recording);
  // The state of an earlier flightd, which could not be read at start: what counted since then is added.
  // `failed`: why it is unusable; on the trigger thread.
  void restore(std::string saved, std::function<void(std::string)> failed);
  void replace(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard);

  // Any thread but the trigger thread; waits for the result.
  [[nodiscard]] std::optional<SidecarMetrics> metrics();

  // Any thread: which metrics cannot be measured for now, and the triggers that are off; for the status.
  [[nodiscard]] std::vector<std::string> metric_troubles() const { return troubles_.texts(); }

  // Any thread: the number of passes; it increases while the thread works.
  [[nodiscard]] std::uint64_t passes() const { return passes_; }

  // Ends the thread; call it after the last metrics(). Open windows are reported, and the last state is saved.
  void stop();
  // Why `saved` was unusable; empty: it was usable.
  [[nodiscard]] const std::string& saved_error() const { return saved_error_; }

 private:
  TriggerThread(Setup setup, Callbacks callbacks, UniqueFd wake);
  void run();
  void wait_for_work(EventTime until_ns);
  void follow_rings();
  void drain_events(EventTime now_ns);
  void look(EventTime now_ns);
  void act(const Decision& decision);
  void keep(EventTime now_ns);

  std::function<std::shared_ptr<Attached>()> attached_of_;
  std::function<void()> look_at_clock_;
  const WaitingClock& clock_;
  std::string boot_id_;
  Callbacks callbacks_;
  TaskQueue tasks_;
  std::vector<TriggerConfig> triggers_;
  std::shared_ptr<Attached> attached_;  // the polled rings
  TriggerRings rings_;
  EventTime last_event_ns_ = 0;  // when a ring last had records
  Sampler sampler_;
  TriggerRules rules_;
  MetricTroubles troubles_;
  PassInterval interval_;
  EventTime looked_ns_ = 0;
  bool looked_slowly_ = false;  // the last pass was a slow one
  std::string saved_error_;
  bool changed_ = false;  // since the state was last passed to `keep`
  EventTime kept_ns_ = 0;
  std::atomic<std::uint64_t> passes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace flight::daemon
