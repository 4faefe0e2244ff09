// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/rules.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "libcore/base/nearest_word.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/headline.hpp"
#include "libcore/trigger/pass_interval.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxReasonBytes = 400;
constexpr SignedTime kMinWindowNs = 60'000'000'000;
constexpr SignedTime kMaxWindowNs = 60 * kMinWindowNs;
constexpr std::size_t kMaxLeftOver = 64;

SignedTime signed_time(const ClockPair& now) { return static_cast<SignedTime>(now.monotonic_ns); }

// Text from outside, made safe for a terminal and bounded.
std::string cleaned(std::string_view text) {
  std::string out = printable(text.substr(0, kMaxReasonBytes));
  if (text.size() > kMaxReasonBytes) out += "…";
  return out;
}

std::string number_text(const MetricInfo& info, double value) {
  return info.share ? fmt::format("{:.0f} %", value) : fmt::format("{:.4g}", value);
}

// "cpu.hottest 100 % above 90 % for 2.0 s (baseline 12 %)"
std::string reason_of(const TriggerConfig& config, const MetricInfo& info, const Crossing& crossing) {
  const bool jump = !config.above && !config.below;
  const std::string part = stolen_text(crossing.stolen);
  std::string out =
      fmt::format("{} {}{} {} {}", info.name, number_text(info, crossing.value), part.empty() ? part : part + ",",
                  config.below ? "below" : "above", number_text(info, crossing.threshold));
  if (crossing.held_ns > 0) out += fmt::format(" for {}", format_duration(std::chrono::nanoseconds(crossing.held_ns)));
  if (crossing.baseline)
    out += fmt::format(" ({}baseline {})", jump ? "a jump; " : "", number_text(info, *crossing.baseline));
  return out;
}

}  // namespace

TriggerRules::TriggerRules(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard,
                           std::vector<MissingMetric> missing)
    : missing_(std::move(missing)), guard_(guard) {
  for (TriggerConfig& trigger : triggers) rules_.push_back(make_rule(std::move(trigger)));
}

TriggerRules::Rule TriggerRules::make_rule(TriggerConfig config) const {
  Rule rule{.config = std::move(config), .policy = RatePolicy(rule.config)};
  const MetricInfo* info = find_metric(rule.config.metric);
  if (info == nullptr) return rule;
  rule.condition.emplace(rule.config);
  rule.unavailable = why_missing(info->metric);
  return rule;
}

std::string TriggerRules::why_missing(Metric metric) const {
  const auto found =
      std::find_if(missing_.begin(), missing_.end(), [metric](const auto& one) { return one.metric == metric; });
  return found == missing_.end() ? "" : found->why;
}

void TriggerRules::set_missing(std::vector<MissingMetric> missing) {
  missing_ = std::move(missing);
  for (Rule& rule : rules_)
    if (rule.condition) rule.unavailable = why_missing(rule.condition->metric());
}

const TriggerRules::Rule* TriggerRules::find(std::string_view name) const {
  const auto found =
      std::find_if(rules_.begin(), rules_.end(), [&](const Rule& rule) { return rule.config.name == name; });
  return found == rules_.end() ? nullptr : &*found;
}

TriggerRules::Rule* TriggerRules::find(std::string_view name) {
  return const_cast<Rule*>(std::as_const(*this).find(name));
}

Failure TriggerRules::no_trigger(std::string_view name) const {
  std::vector<std::string_view> known;
  for (const Rule& rule : rules_) known.push_back(rule.config.name);
  const std::string_view meant = nearest_word(name, known);
  return fail(std::errc::no_such_file_or_directory, "there is no trigger '{}'{} `flightctl triggers` shows all",
              cleaned(name), meant.empty() ? ";" : fmt::format(": did you mean '{}'?", meant));
}

std::vector<Decision> TriggerRules::on_pass(const MetricPass& pass, const ClockPair& now) {
  history_.add(pass);
  std::vector<Decision> decisions;
  for (Rule& rule : rules_) {
    if (!rule.condition || !rule.on()) continue;
    const auto crossing = rule.condition->on_pass(pass, history_);
    if (!crossing) continue;
    SidecarFired fired{.metric = rule.config.metric,
                       .value = crossing->value,
                       .threshold = crossing->threshold,
                       .baseline = crossing->baseline.value_or(std::nan("")),
                       .since_ns = crossing->since_ns,
                       .stolen = crossing->stolen};
    std::string reason = reason_of(rule.config, info_of(rule.condition->metric()), *crossing);
    decisions.push_back(decide(rule, std::move(reason), std::move(fired), now));
  }
  return decisions;
}

std::chrono::nanoseconds TriggerRules::longest_look() const {
  std::chrono::nanoseconds out = PassInterval::kCalm;
  for (const Rule& rule : rules_) {
    if (!rule.condition || !rule.on()) continue;
    if (!rule.unavailable.empty() && !rule.condition->last_value()) continue;
    out = std::min(out, rule.condition->longest_look());
  }
  return out;
}

std::optional<Decision> TriggerRules::on_event(std::string_view trigger, std::string_view detail,
                                               const ClockPair& now) {
  Rule* rule = find(trigger);
  if (rule == nullptr || !rule->config.event || !rule->on()) return std::nullopt;
  return decide(*rule, cleaned(detail.empty() ? rule->config.event->event : detail), std::nullopt, now);
}

Result<Decision> TriggerRules::on_external(std::string_view trigger, std::string_view reason, const ClockPair& now) {
  Rule* rule = find(trigger);
  if (rule == nullptr) return no_trigger(trigger);
  if (!rule->config.external)
    return fail(
        std::errc::invalid_argument,
        "trigger '{}' fires automatically, on {}; only a trigger with \"external\": true can be fired from outside",
        rule->config.name, rule->config.event ? rule->config.event->event : rule->config.metric);
  return decide(*rule, cleaned(reason.empty() ? "fired from outside" : reason), std::nullopt, now);
}

Decision TriggerRules::decide(Rule& rule, std::string reason, std::optional<SidecarFired> fired, const ClockPair& now) {
  Decision out{.trigger = rule.config.name,
               .reason = std::move(reason),
               .fired = std::move(fired),
               .post = rule.config.post,
               .last = rule.config.last,
               .capture = rule.config.capture,
               .record = rule.config.record};
  if (!rule.on()) {
    out.by = SuppressedBy::disabled;
    return out;
  }
  const SignedTime now_ns = signed_time(now);
  Verdict verdict = recording_ ? rule.policy.ask(now_ns) : Verdict{SuppressedBy::not_recording, now_ns};
  if (verdict.passes()) verdict = guard_.ask(now_ns);
  if (verdict.passes()) {
    rule.policy.note(now_ns);
    guard_.take(now_ns);
    ++rule.fired;
    rule.fired_at = now.wall;
    if (const auto until_ns = rule.policy.day_used_until(now_ns)) {
      out.blind_until = now.wall_at(static_cast<EventTime>(*until_ns));
      out.max_per_day = rule.config.max_per_day;
    }
    return out;
  }
  out.by = verdict.by;
  out.until_ns = static_cast<EventTime>(std::max<SignedTime>(verdict.until_ns, 0));
  out.until = now.wall_at(out.until_ns);
  out.first = note_suppressed(rule, verdict, now);
  return out;
}

// Whether it is the first of its window.
bool TriggerRules::note_suppressed(Rule& rule, const Verdict& verdict, const ClockPair& now) {
  ++rule.suppressed;
  const bool first = !rule.window;
  if (first) {
    const SignedTime now_ns = signed_time(now);
    rule.window = Window{.suppressed = {.trigger = rule.config.name, .first = now.wall},
                         .end_ns = std::clamp(verdict.until_ns, now_ns + kMinWindowNs, now_ns + kMaxWindowNs)};
  }
  ++rule.window->suppressed.count;
  ++rule.window->suppressed.by.at(static_cast<std::size_t>(verdict.by));
  rule.window->suppressed.last = now.wall;
  return first;
}

void TriggerRules::note_further(std::string_view trigger, std::uint64_t count, const ClockPair& now) {
  Rule* rule = find(trigger);
  if (rule == nullptr || !rule->on() || count == 0) return;
  Verdict verdict = rule->policy.ask(signed_time(now));
  if (verdict.passes()) verdict = {.by = SuppressedBy::storm_guard, .until_ns = signed_time(now)};
  static_cast<void>(note_suppressed(*rule, verdict, now));
  rule->suppressed += count - 1;
  rule->window->suppressed.count += count - 1;
  rule->window->suppressed.by.at(static_cast<std::size_t>(verdict.by)) += count - 1;
}

std::string SuppressedWindow::by_text() const {
  std::string out;
  const bool several = std::count_if(by.begin(), by.end(), [](std::uint64_t one) { return one > 0; }) > 1;
  for (std::size_t i = 0; i < by.size(); ++i) {
    if (by.at(i) == 0) continue;
    out += out.empty() ? "" : ", ";
    out += to_string(static_cast<SuppressedBy>(i));
    if (several) out += fmt::format(" ({})", by.at(i));
  }
  return out;
}

std::vector<SuppressedWindow> TriggerRules::take_ended_windows(const ClockPair& now, bool all) {
  std::vector<SuppressedWindow> out = std::exchange(left_over_, {});
  for (Rule& rule : rules_) {
    if (!rule.window || (!all && signed_time(now) < rule.window->end_ns)) continue;
    out.push_back(std::move(rule.window->suppressed));
    rule.window.reset();
  }
  return out;
}

Result<Decision> TriggerRules::test(std::string_view trigger, const ClockPair& now) {
  Rule* rule = find(trigger);
  if (rule == nullptr) return no_trigger(trigger);
  const TriggerRow seen = row(*rule, now);
  std::string reason = fmt::format("test of the trigger (state: {}", seen.state);
  if (seen.value)
    reason +=
        fmt::format("; {} is {}", rule->config.metric, number_text(info_of(rule->condition->metric()), *seen.value));
  reason += ')';
  ++rule->fired;
  rule->fired_at = now.wall;
  return Decision{.trigger = rule->config.name,
                  .reason = cleaned(reason),
                  .post = rule->config.post,
                  .last = rule->config.last,
                  .capture = rule->config.capture,
                  .record = rule->config.record};
}

Result<void> TriggerRules::enable(std::string_view trigger, bool on) {
  Rule* rule = find(trigger);
  if (rule == nullptr) return no_trigger(trigger);
  if (on && rule->config.event && !rule->config.enabled)
    return fail(std::errc::invalid_argument,
                "trigger '{}' needs the kernel event {}, which is not recorded because the trigger is disabled in the "
                "configuration: set "
                "\"enabled\": true there and `flightctl reload`",
                rule->config.name, rule->config.event->event);
  if (on && !rule->on() && rule->condition) rule->condition->rearm();
  // A switch to the configured value is not stored, so that a later change of the configuration applies.
  rule->switched = on == rule->config.enabled ? std::nullopt : std::optional(on);
  return {};
}

void TriggerRules::note_snapshot(std::string_view trigger, std::string snapshot_id) {
  Rule* rule = find(trigger);
  if (rule == nullptr) return;
  rule->snapshot = std::move(snapshot_id);
  rule->lost.clear();
}

void TriggerRules::note_lost(std::string_view trigger, std::string_view why, bool test) {
  Rule* rule = find(trigger);
  if (rule == nullptr) return;
  if (!test) rule->policy.take_back();
  rule->lost = cleaned(why);
}

void TriggerRules::note_recording(std::string_view trigger, std::string first_id) {
  Rule* rule = find(trigger);
  if (rule == nullptr) return;
  ++rule->recordings;
  rule->recording = std::move(first_id);
  rule->unrecorded.clear();
}

void TriggerRules::note_unrecorded(std::string_view trigger, std::string_view why) {
  Rule* rule = find(trigger);
  if (rule == nullptr) return;
  ++rule->recordings_failed;
  rule->unrecorded = cleaned(why);
}

void TriggerRules::note_unavailable(std::string_view trigger, std::string why) {
  if (Rule* rule = find(trigger)) rule->unavailable = std::move(why);
}

void TriggerRules::replace(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard, const ClockPair& now) {
  std::vector<Rule> old = std::exchange(rules_, {});
  for (TriggerConfig& config : triggers) {
    Rule rule = make_rule(std::move(config));
    const auto before =
        std::find_if(old.begin(), old.end(), [&](const Rule& r) { return r.config.name == rule.config.name; });
    if (before != old.end()) {
      const bool same = same_trigger(before->config, rule.config);
      if (same) rule.condition = before->condition;
      if (same && !rule.condition) rule.unavailable = std::move(before->unavailable);
      rule.policy.restore(before->policy.firings(), signed_time(now));
      if (before->config.enabled == rule.config.enabled) rule.switched = before->switched;
      rule.window = std::exchange(before->window, std::nullopt);
      rule.fired = before->fired;
      rule.suppressed = before->suppressed;
      rule.fired_at = before->fired_at;
      rule.snapshot = std::move(before->snapshot);
      rule.recording = std::move(before->recording);
      rule.recordings = before->recordings;
      rule.recordings_failed = before->recordings_failed;
      if (rule.config.record.count() > 0) rule.unrecorded = std::move(before->unrecorded);
    }
    rules_.push_back(std::move(rule));
  }
  for (Rule& rule : old)
    if (rule.window && left_over_.size() < kMaxLeftOver) left_over_.push_back(std::move(rule.window->suppressed));
  guard_.change(guard, signed_time(now));
}

TriggerState TriggerRules::state(std::string boot_id, const ClockPair& now) const {
  TriggerState out{.boot_id = std::move(boot_id), .wall = now.wall, .monotonic_ns = signed_time(now)};
  out.guard_tokens = guard_.tokens(out.monotonic_ns);
  for (const Rule& rule : rules_)
    out.triggers.push_back({rule.config.name, rule.fired, rule.suppressed, rule.switched, rule.fired_at, rule.snapshot,
                            rule.policy.firings(), rule.recordings, rule.recordings_failed, rule.recording});
  return out;
}

void TriggerRules::restore(const TriggerState& state, std::string_view boot_id, const ClockPair& now) {
  const SignedTime shift = state.shift(boot_id, now);
  const double left = guard_.tokens(signed_time(now));
  guard_.restore(state.guard_tokens, state.monotonic_ns + shift);
  if (left < guard_.tokens(signed_time(now))) guard_.restore(left, signed_time(now));
  for (const SavedTrigger& saved : state.triggers) {
    Rule* rule = find(saved.name);
    if (rule == nullptr) continue;
    std::vector<SignedTime> firings = saved.firings;
    for (SignedTime& firing : firings) firing += shift;
    for (const SignedTime firing : rule->policy.firings()) firings.push_back(firing);
    rule->policy.restore(firings, signed_time(now));
    if (!rule->switched) rule->switched = saved.enabled == rule->config.enabled ? std::nullopt : saved.enabled;
    rule->fired += saved.fired;
    rule->suppressed += saved.suppressed;
    if (!rule->fired_at) rule->fired_at = saved.fired_at;
    if (rule->snapshot.empty()) rule->snapshot = saved.snapshot;
    rule->recordings += saved.recordings;
    rule->recordings_failed += saved.recordings_failed;
    if (rule->recording.empty()) rule->recording = saved.recording;
  }
}

}  // namespace flight
