// SPDX-License-Identifier: Apache-2.0
// The rows of `flightctl triggers`.
#include <algorithm>

#include "libcore/base/units.hpp"
#include "libcore/trigger/rules.hpp"

namespace flight {
namespace {

std::string words_of(const TriggerConfig& config) {
  if (config.external) return "fired from outside";
  if (!config.event) return {};
  return config.event->filter.empty() ? config.event->event
                                      : fmt::format("{} if {}", config.event->event, config.event->filter);
}

std::string long_for(std::uint64_t ns) { return format_duration(std::chrono::nanoseconds(ns)); }

void report_condition(const Condition& condition, const TriggerConfig& config, EventTime now_ns, TriggerRow& row) {
  const auto since = long_for(now_ns - std::min(now_ns, condition.since_ns()));
  const auto level = config.rearm ? config.rearm : config.above ? config.above : config.below;
  switch (condition.state()) {
    case Condition::State::warming_up:
      row.state = "warming up";
      row.note = long_for(condition.to_warm_up_ns()) + " more";
      break;
    case Condition::State::pending:
      row.state = "pending";
      row.note = "for " + since;
      break;
    case Condition::State::fired:
      row.state = "fired";
      row.note = "not over yet, for " + since;
      if (level)
        row.note += fmt::format("; armed again {} {:g}{}", config.below ? "from" : "at", *level, row.share ? " %" : "");
      break;
    case Condition::State::armed:
      break;
  }
}

}  // namespace

std::string TriggerWithoutSource::text() const {
  if (shipped) return fmt::format("trigger '{}' is off: {}", name, why);
  return fmt::format("{}: trigger '{}' cannot work on this machine: {}; remove it, or set \"enabled\": false", place,
                     name, why);
}

std::vector<TriggerWithoutSource> triggers_without_source(const std::vector<TriggerConfig>& triggers,
                                                          const std::vector<MissingMetric>& missing) {
  std::vector<TriggerWithoutSource> out;
  for (const TriggerConfig& trigger : triggers) {
    const MetricInfo* info = find_metric(trigger.metric);
    if (info == nullptr || !trigger.enabled) continue;
    for (const MissingMetric& metric : missing)
      if (metric.metric == info->metric)
        out.push_back({trigger.name, trigger.place, metric.why, trigger.shipped, metric.passing, metric.metric});
  }
  return out;
}

std::vector<TriggerRow> TriggerRules::rows(const ClockPair& now) const {
  std::vector<TriggerRow> out;
  for (const Rule& rule : rules_) {
    TriggerRow& one = out.emplace_back(row(rule, now));
    const auto add = [&one](std::string_view what, std::string_view why) {
      if (!why.empty()) one.note += fmt::format("{}{}: {}", one.note.empty() ? "" : "; ", what, why);
    };
    add("its last firing left no snapshot", rule.lost);
    add("its last firing made no recording", rule.unrecorded);
  }
  return out;
}

TriggerRow TriggerRules::row(const Rule& rule, const ClockPair& now) const {
  TriggerRow row{.name = rule.config.name,
                 .condition = rule.condition ? rule.condition->words() : words_of(rule.config),
                 .enabled = rule.on(),
                 .state = "armed",
                 .fired_at = rule.fired_at,
                 .snapshot = rule.snapshot,
                 .fired = rule.fired,
                 .suppressed = rule.suppressed,
                 .recording = rule.recording,
                 .recordings = rule.recordings,
                 .recordings_failed = rule.recordings_failed};
  if (rule.condition) {
    row.share = info_of(rule.condition->metric()).share;
    row.value = rule.condition->last_value();
  }
  if (!row.enabled) {
    row.state = "off";
    row.note = rule.switched ? "disabled by a user" : "\"enabled\": false";
    return row;
  }
  // If the CPU comes back, its metric may become available.
  if (!rule.unavailable.empty() && !row.value) {
    row.state = "unavailable";
    row.note = rule.unavailable;
    return row;
  }
  if (rule.condition) report_condition(*rule.condition, rule.config, now.monotonic_ns, row);
  if (row.state != "armed") return row;
  Verdict verdict = rule.policy.ask(static_cast<SignedTime>(now.monotonic_ns));
  if (verdict.passes()) verdict = guard_.ask(static_cast<SignedTime>(now.monotonic_ns));
  if (verdict.passes()) return row;
  row.state = "held back";
  row.note = fmt::format("{} until {}", to_string(verdict.by),
                         to_rfc3339(now.wall_at(static_cast<EventTime>(verdict.until_ns))));
  return row;
}

}  // namespace flight
