// SPDX-License-Identifier: Apache-2.0
// "triggers": exactly one condition each, thresholds in the metric's own unit, the rate policy, the action.
#include <algorithm>
#include <array>

#include "libcore/base/nearest_word.hpp"
#include "libcore/base/units.hpp"
#include "libcore/config/check.hpp"
#include "libcore/config/metrics.hpp"

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;

// Names of snapshots that no configured trigger took.
constexpr std::array<std::string_view, 5> kReserved{"manual", "signal", "broker-lost", "stop", "record"};
// Keys that apply only to a metric.
constexpr std::array<std::string_view, 6> kOfMetrics{"above", "below", "delta", "for", "rearm", "warmup"};

void read_metric(const Reader& reader, std::string& out) {
  constexpr std::string_view kRight = "a metric such as \"cpu.busy\"";
  reader.text(out, kRight);
  if (out.empty() || find_metric(out) != nullptr) return;
  std::vector<std::string_view> names;
  for (const MetricInfo& metric : kMetrics) names.push_back(metric.name);
  reader.refuse(
      fmt::format("there is no metric '{}'{} (known: {})", excerpt(out), nearest_text(out, names), join_words(names)));
}

// `metric`: of this trigger; nullptr in a fragment without it, where both units may be correct.
void read_threshold(const Reader& reader, const MetricInfo* metric, std::optional<double>& out) {
  constexpr double kMaxTasks = 1e9;
  const bool is_number = reader.value().kind == Value::Kind::number;
  double value = 0;
  if (metric == nullptr ? !is_number : metric->share) {
    if (is_number) {
      reader.refuse(fmt::format("{} is a share: use a percentage such as \"{:g}%\"", metric->name,
                                std::clamp(reader.value().number, 0.0, 100.0)));
      return;
    }
    reader.percent(value);
  } else {
    if (!reader.is(Value::Kind::number, "a number of tasks without quotes and unit, such as 16")) return;
    value = reader.value().number;
    if (value < 0 || value > kMaxTasks)
      reader.refuse(fmt::format("{:g} is out of range; use a number of tasks from 0 to {:g}", value, kMaxTasks));
  }
  out = value;
}

// A tracepoint, alone or with a filter.
void read_kernel_event(const Reader& reader, std::optional<EventConfig>& out) {
  constexpr std::string_view kRight =
      "a tracepoint: \"SYSTEM:EVENT\" or { \"event\": \"SYSTEM:EVENT\", \"filter\": \"…\" }";
  EventConfig event;
  const auto read_tracepoint = [&](const Reader& r) {
    read_event_name(r, event.event);
    if (!is_tracepoint_name(event.event))
      r.refuse(
          fmt::format("'{}' is not a tracepoint; use SYSTEM:EVENT such as \"oom:mark_victim\"", excerpt(event.event)));
  };
  if (reader.value().kind == Value::Kind::text) {
    read_tracepoint(reader);
  } else if (reader.is(Value::Kind::object, kRight)) {
    reader.object({{"event", read_tracepoint},
                   {"filter", [&](const Reader& r) { r.text(event.filter, "a filter such as \"prio < 100\""); }}});
    if (!reader.fragment() && reader.value().member("event") == nullptr)
      reader.refuse(fmt::format("the key 'event' is missing; use {}", kRight));
  }
  out = std::move(event);
}

void read_count(const Reader& reader, std::uint32_t& out) {
  std::uint64_t count = 0;
  reader.whole(count, 1, kMaxFirings);
  out = static_cast<std::uint32_t>(count);
}

// What a trigger does besides its snapshot.
void read_action(const Reader& reader, TriggerConfig& out) {
  reader.object({{"record", [&](const Reader& r) { r.duration(out.record, std::chrono::seconds(1), hours(24)); }}});
  if (reader.value().is_object() && !reader.fragment() && reader.value().member("record") == nullptr)
    reader.refuse("the key 'record' is missing; use { \"record\": \"2min\" }, or remove 'action'");
}

// A trigger belongs to the file that defines its condition. A missing source is a note for a shipped trigger and an
// error for an administrator's. A changed cooldown in another file does not make the trigger the administrator's.
void note_origin(const Value& trigger, TriggerConfig& out) {
  for (const Value& item : trigger.items) {
    const bool external = item.key == "external" && item.boolean;
    const Place& place = item.place;
    if ((item.key != "metric" && item.key != "event" && !external) || !place.source) continue;
    out.place = fmt::format("{}:{}", place.source->file, place.line);
    out.shipped = place.source->shipped;
  }
}

// Refuses a threshold that the metric can never cross.
void check_reachable(const Reader& reader, const TriggerConfig& trigger) {
  const MetricInfo* metric = find_metric(trigger.metric);
  const auto refuse = [&](const char* key, const std::string& message) {
    reader.of(*reader.value().member(key)).refuse(message);
  };
  constexpr double kWhole = 100;
  const bool share = metric != nullptr && metric->share;
  if (share && trigger.above && *trigger.above >= kWhole)
    refuse("above", "a share is never above 100 %; use less, for example \"95%\"");
  if (trigger.below && *trigger.below <= 0)
    refuse("below", fmt::format("{} is never below 0; use more", trigger.metric));
  if (trigger.delta && *trigger.delta <= 0)
    refuse("delta", share ? "'delta' must be above 0, for example \"30%\"" : "'delta' must be above 0, for example 8");
  if (share && trigger.delta && *trigger.delta >= kWhole)
    refuse("delta", "'delta' of a share must be below 100 %, for example \"30%\"");
}

// Checks that need the whole trigger: exactly one condition, and thresholds that fit it and each other.
void check_whole(const Reader& reader, const TriggerConfig& trigger) {
  const Value& value = reader.value();
  std::vector<const Value*> conditions;
  for (const Value& item : value.items) {
    const bool external = item.key == "external" && item.boolean;
    if (item.key == "metric" || item.key == "event" || external) conditions.push_back(&item);
  }
  if (conditions.empty())
    return reader.refuse(
        "the trigger has no condition; use one of \"metric\": \"cpu.busy\", \"event\": \"SYSTEM:EVENT\" or "
        "\"external\": true");
  if (conditions.size() > 1) {
    // Refuse the condition that was written last: in the file with the higher rank, or further down.
    const auto* last = *std::max_element(conditions.begin(), conditions.end(), [](const Value* a, const Value* b) {
      const auto rank = [](const Value* v) { return v->place.source ? v->place.source->rank : 0; };
      return rank(a) != rank(b) ? rank(a) < rank(b) : a->place.line < b->place.line;
    });
    return reader.of(*last).refuse(
        fmt::format("a trigger has exactly one of 'metric', 'event' and 'external: true', "
                    "but this one also has '{}'; define another trigger",
                    conditions.front() == last ? conditions.back()->key : conditions.front()->key));
  }
  if (trigger.metric.empty()) {
    for (const Value& item : value.items)
      if (std::find(kOfMetrics.begin(), kOfMetrics.end(), item.key) != kOfMetrics.end())
        reader.of(item).refuse(fmt::format("only a trigger with a 'metric' can have '{}'; remove it", item.key));
    return;
  }
  if (trigger.above && trigger.below)
    return reader.of(*value.member("below")).refuse("a trigger has 'above' or 'below', not both; define two triggers");
  if (!trigger.above && !trigger.below && !trigger.delta)
    return reader.refuse("a metric needs a threshold: 'above' or 'below', or 'delta' for a jump");
  check_reachable(reader, trigger);
  if (!trigger.rearm) return;
  // If the two thresholds do not fit together, the error names the one from the file with the higher rank.
  const Value* written = value.member("rearm");
  const Value* other = value.member(trigger.above ? "above" : "below");
  const auto rank = [](const Value* v) { return v->place.source ? v->place.source->rank : 0; };
  const bool blame_other = other != nullptr && rank(other) > rank(written);
  const Reader rearm = reader.of(blame_other ? *other : *written);
  if (!trigger.above && !trigger.below)
    rearm.refuse("'rearm' is a second threshold beside 'above' or 'below', but neither is given");
  else if (trigger.above ? *trigger.rearm > *trigger.above : *trigger.rearm < *trigger.below)
    rearm.refuse(
        blame_other
            ? fmt::format("with 'rearm' at {:g} ({}:{}) the trigger would be armed again while it still fires; set "
                          "'rearm' here, too",
                          *trigger.rearm, written->place.source ? written->place.source->file : "", written->place.line)
            : fmt::format("the trigger would be armed again while it still fires; use a value {} {:g}",
                          trigger.above ? "below 'above', at most" : "above 'below', at least",
                          trigger.above ? *trigger.above : *trigger.below));
}

void read_trigger(const Reader& reader, TriggerConfig& out) {
  out.name = reader.value().key;
  if (const Place& place = reader.value().key_place; place.source)
    out.place = fmt::format("{}:{}", place.source->file, place.line);
  if (std::find(kReserved.begin(), kReserved.end(), out.name) != kReserved.end())
    return reader.refuse(
        fmt::format("'{}' is reserved for snapshots without a configured trigger; use another name", out.name));
  const Value* named = reader.value().member("metric");
  const MetricInfo* metric = named == nullptr ? nullptr : find_metric(named->text);
  // Without a metric the trigger is refused anyway, whatever the unit is.
  const auto threshold = [&](std::optional<double>& field) {
    return [&](const Reader& r) { read_threshold(r, metric, field); };
  };
  const auto time = [](nanoseconds& field, nanoseconds least, nanoseconds most) {
    return [&field, least, most](const Reader& r) { r.duration(field, least, most); };
  };
  reader.object({
      {"metric", [&](const Reader& r) { read_metric(r, out.metric); }},
      {"event", [&](const Reader& r) { read_kernel_event(r, out.event); }},
      {"external", [&](const Reader& r) { r.flag(out.external); }},
      {"above", threshold(out.above)},
      {"below", threshold(out.below)},
      {"delta", threshold(out.delta)},
      {"rearm", threshold(out.rearm)},
      {"for", time(out.for_time, nanoseconds(0), hours(1))},
      {"warmup", [&](const Reader& r) { r.duration(out.warmup.emplace(), nanoseconds(0), hours(24)); }},
      {"cooldown", time(out.cooldown, nanoseconds(0), hours(24 * 30))},
      {"max_per_hour", [&](const Reader& r) { read_count(r, out.max_per_hour); }},
      {"max_per_day", [&](const Reader& r) { read_count(r, out.max_per_day); }},
      {"post", time(out.post, nanoseconds(0), minutes(10))},
      {"last", time(out.last, std::chrono::milliseconds(1), hours(24))},
      {"capture", [&](const Reader& r) { r.capture_mode(out.capture.emplace()); }},
      {"action", [&](const Reader& r) { read_action(r, out); }},
      {"enabled", [&](const Reader& r) { r.flag(out.enabled); }},
  });
  note_origin(reader.value(), out);
  if (reader.value().is_object() && !reader.fragment()) check_whole(reader, out);
}

}  // namespace

void read_triggers(const Reader& reader, std::vector<TriggerConfig>& triggers) {
  reader.named("trigger", kMaxTriggers, [&](const Reader& r) { read_trigger(r, triggers.emplace_back()); });
}

void read_storm_guard(const Reader& reader, StormGuardConfig& out) {
  reader.object({
      {"burst", [&](const Reader& r) { read_count(r, out.burst); }},
      {"per_hour", [&](const Reader& r) { read_count(r, out.per_hour); }},
  });
}

}  // namespace flight
