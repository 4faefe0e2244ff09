// SPDX-License-Identifier: Apache-2.0
// All triggers of a configuration: what they see, what they decide, what they have done. It takes no snapshot and
// reads no clock: passes, events and the time come in, decisions go out. One thread at a time.
#pragma once

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

// A trigger that is on and whose metric this machine does not have.
struct TriggerWithoutSource {
  std::string name, place, why;
  bool shipped = false;                    // off, with a warning; else an error
  [[nodiscard]] std::string text() const;  // the sentence, with the place where it is an admin's
};
[[nodiscard]] std::vector<TriggerWithoutSource> triggers_without_source(const std::vector<TriggerConfig>& triggers,
                                                                        const std::vector<MissingMetric>& missing);

class TriggerRules {
 public:
  TriggerRules(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard, std::vector<MissingMetric> missing);

  // After each look; also keeps history(). `now`: about the pass's own time.
  [[nodiscard]] std::vector<Decision> on_pass(const MetricPass& pass, const ClockPair& now);
  // A record of the trigger's tracepoint. nullopt: there is no such trigger, or it is off. `detail`: what the event
  // says, for people.
  [[nodiscard]] std::optional<Decision> on_event(std::string_view trigger, std::string_view detail,
                                                 const ClockPair& now);
  // As many more records came with the last one, too fast to be looked at one by one: each is a firing held back.
  void note_further(std::string_view trigger, std::uint64_t count, const ClockPair& now);
  // `flightctl fire`. One that is off is held back by `disabled`. ENOENT: there is no such trigger; EINVAL: it is none
  // that is fired from outside.
  [[nodiscard]] Result<Decision> on_external(std::string_view trigger, std::string_view reason, const ClockPair& now);
  // `flightctl triggers test`: takes the trigger's action as if its condition held. A person asked, so no policy is
  // asked and none counts it; the reason says that it is a test, and what the condition sees now.
  [[nodiscard]] Result<Decision> test(std::string_view trigger, const ClockPair& now) const;
  // By a person's word; holds until it is said again, also over a restart. ENOENT as above.
  [[nodiscard]] Result<void> enable(std::string_view trigger, bool on);

  // What a decision became: a snapshot, or none.
  void note_snapshot(std::string_view trigger, std::string snapshot_id);
  void note_lost(std::string_view trigger, std::string_view why);
  // While nothing is recorded what would fire is held back, and uses up no limit.
  void set_recording(bool recording) { recording_ = recording; }
  // Why the broker could not open an event trigger; empty: it could.
  void note_unavailable(std::string_view trigger, std::string why);

  // Windows of suppressed firings that are over. A window ends when the trigger would be let through again, after a
  // minute at the least and an hour at the most. `all`: the open ones, too, before flightd ends.
  [[nodiscard]] std::vector<SuppressedWindow> take_ended_windows(const ClockPair& now, bool all = false);

  [[nodiscard]] std::vector<TriggerRow> rows(const ClockPair& now) const;
  [[nodiscard]] const MetricHistory& history() const { return history_; }

  // After a reload. A trigger that says the same goes on as if nothing had been; of one that says something else the
  // condition begins anew, and what it has done still counts.
  void replace(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard, const ClockPair& now);

  [[nodiscard]] TriggerState state(std::string boot_id, const ClockPair& now) const;
  void restore(const TriggerState& state, std::string_view boot_id, const ClockPair& now);

 private:
  struct Window {
    SuppressedWindow told;
    SignedTime end_ns = 0;
  };
  struct Rule {
    TriggerConfig config;
    RatePolicy policy;
    std::optional<Condition> condition;  // of a metric
    std::optional<bool> switched;        // by a person's word
    std::string unavailable;             // why
    std::string lost;                    // why its last firing left no snapshot
    std::optional<Window> window;
    std::uint64_t fired = 0, suppressed = 0;
    std::optional<WallTime> fired_at;
    std::string snapshot;

    [[nodiscard]] bool on() const { return switched.value_or(config.enabled); }
  };
  [[nodiscard]] Rule make_rule(TriggerConfig config) const;
  [[nodiscard]] Rule* find(std::string_view name);
  [[nodiscard]] const Rule* find(std::string_view name) const;
  [[nodiscard]] Decision decide(Rule& rule, std::string reason, std::optional<SidecarFired> fired,
                                const ClockPair& now);
  static bool note_suppressed(Rule& rule, const Verdict& verdict, const ClockPair& now);
  [[nodiscard]] TriggerRow row(const Rule& rule, const ClockPair& now) const;

  std::vector<MissingMetric> missing_;
  std::vector<Rule> rules_;
  bool recording_ = true;
  std::vector<SuppressedWindow> left_over_;  // of triggers that a reload took away
  StormGuard guard_;
  MetricHistory history_;
};

}  // namespace flight
