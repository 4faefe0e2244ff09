// SPDX-License-Identifier: Apache-2.0
// All triggers of a configuration: their conditions, decisions and counters. It takes no snapshot and reads no clock:
// passes, events and the time are parameters, decisions are results. One thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"
#include "libcore/trigger/condition.hpp"
#include "libcore/trigger/decision.hpp"
#include "libcore/trigger/guard.hpp"
#include "libcore/trigger/history.hpp"
#include "libcore/trigger/policy.hpp"
#include "libcore/trigger/sampler.hpp"
#include "libcore/trigger/state.hpp"

namespace flight {

// An enabled trigger whose metric this machine does not have.
struct TriggerWithoutSource {
  std::string name, place, why;
  bool shipped = false;  // off, with a note; otherwise an error
  bool passing = false;  // neither: its metric may come back (MissingMetric)
  Metric metric{};
  [[nodiscard]] std::string text() const;  // the sentence, with the place if an administrator wrote it
};
[[nodiscard]] std::vector<TriggerWithoutSource> triggers_without_source(const std::vector<TriggerConfig>& triggers,
                                                                        const std::vector<MissingMetric>& missing);

class TriggerRules {
 public:
  TriggerRules(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard, std::vector<MissingMetric> missing);

  // Call it after each pass; it also updates history(). `now`: about the pass's time.
  [[nodiscard]] std::vector<Decision> on_pass(const MetricPass& pass, const ClockPair& now);
  // The longest next pass with which no trigger fires later than its "for" plus 0.5 s. 0 at the first sign that one
  // may fire.
  [[nodiscard]] std::chrono::nanoseconds longest_look() const;
  // A record of the trigger's tracepoint. nullopt: there is no such trigger, or it is off. `detail`: the event as
  // text.
  [[nodiscard]] std::optional<Decision> on_event(std::string_view trigger, std::string_view detail,
                                                 const ClockPair& now);
  // This many more records came with the last one, too fast to be handled individually: each counts as a suppressed
  // firing.
  void note_further(std::string_view trigger, std::uint64_t count, const ClockPair& now);
  // `flightctl fire`. A disabled trigger is suppressed by `disabled`. ENOENT: there is no such trigger; EINVAL: it is
  // not external.
  [[nodiscard]] Result<Decision> on_external(std::string_view trigger, std::string_view reason, const ClockPair& now);
  // `flightctl triggers test`: runs the trigger's action without its condition. It counts as a firing. A person
  // requested it, so no limit applies to it, and it counts for none; the reason says that it is a test, and has the
  // current values.
  [[nodiscard]] Result<Decision> test(std::string_view trigger, const ClockPair& now);
  // Set by a user; it persists, also over a restart, until it is set again. ENOENT as above.
  [[nodiscard]] Result<void> enable(std::string_view trigger, bool on);

  // The result of a decision: a snapshot, or none. `test`: it was that of test().
  void note_snapshot(std::string_view trigger, std::string snapshot_id);
  void note_lost(std::string_view trigger, std::string_view why, bool test = false);
  // The same for its recording: one that began, or none.
  void note_recording(std::string_view trigger, std::string first_id);
  void note_unrecorded(std::string_view trigger, std::string_view why);
  // While recording is paused, firings are suppressed and do not count for any limit.
  void set_recording(bool recording) { recording_ = recording; }
  // The metrics that cannot be measured from now on.
  void set_missing(std::vector<MissingMetric> missing);
  // Why the broker could not open an event trigger; empty: it did.
  void note_unavailable(std::string_view trigger, std::string why);

  // The finished windows of suppressed firings. A window ends when the trigger may fire again, after at least a minute
  // and at most an hour. `all`: includes open ones, before flightd ends.
  [[nodiscard]] std::vector<SuppressedWindow> take_ended_windows(const ClockPair& now, bool all = false);

  [[nodiscard]] std::vector<TriggerRow> rows(const ClockPair& now) const;
  [[nodiscard]] const MetricHistory& history() const { return history_; }

  // Call it after a reload. An unchanged trigger continues; a changed one restarts its condition and keeps its
  // counters.
  void replace(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard, const ClockPair& now);

  [[nodiscard]] TriggerState state(std::string boot_id, const ClockPair& now) const;
  void restore(const TriggerState& state, std::string_view boot_id, const ClockPair& now);

 private:
  struct Window {
    SuppressedWindow suppressed;
    SignedTime end_ns = 0;
  };
  struct Rule {
    TriggerConfig config;
    RatePolicy policy;
    std::optional<Condition> condition;  // for a metric
    std::optional<bool> switched;        // by a user
    std::string unavailable;             // why
    std::string lost;                    // why its last firing made no snapshot
    std::optional<Window> window;
    std::uint64_t fired = 0, suppressed = 0;
    std::optional<WallTime> fired_at;
    std::string snapshot;
    std::string recording;  // the last one's id
    std::uint64_t recordings = 0, recordings_failed = 0;
    std::string unrecorded;  // why its last firing made no recording

    [[nodiscard]] bool on() const { return switched.value_or(config.enabled); }
  };
  [[nodiscard]] Rule make_rule(TriggerConfig config) const;
  [[nodiscard]] std::string why_missing(Metric metric) const;  // empty: it is not
  [[nodiscard]] Rule* find(std::string_view name);
  [[nodiscard]] const Rule* find(std::string_view name) const;
  [[nodiscard]] Failure no_trigger(std::string_view name) const;
  [[nodiscard]] Decision decide(Rule& rule, std::string reason, std::optional<SidecarFired> fired,
                                const ClockPair& now);
  static bool note_suppressed(Rule& rule, const Verdict& verdict, const ClockPair& now);
  [[nodiscard]] TriggerRow row(const Rule& rule, const ClockPair& now) const;

  std::vector<MissingMetric> missing_;
  std::vector<Rule> rules_;
  bool recording_ = true;
  std::vector<SuppressedWindow> left_over_;  // of triggers that a reload removed
  StormGuard guard_;
  MetricHistory history_;
};

}  // namespace flight
