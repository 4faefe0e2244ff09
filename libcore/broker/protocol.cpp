// SPDX-License-Identifier: Apache-2.0
// Writes the manifest and the counts; protocol_read.cpp reads them. Keys are in alphabetical order.
#include "libcore/broker/protocol.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "libcore/broker/hex.hpp"
#include "libcore/json/value.hpp"

namespace flight {
namespace {

using json::Object;

Object json_of(const ManifestRing& ring) {
  return {{"channel", ring.channel},       {"cpu", ring.cpu},           {"enabled_ns", ring.enabled_ns},
          {"kind", to_string(ring.kind)},  {"live_ids", ring.live_ids}, {"online", ring.online},
          {"owner_died", ring.owner_died}, {"owner_id", ring.owner_id}, {"ring_bytes", ring.ring_bytes}};
}

Object json_of(const ManifestId& id) {
  Object out{{"cpu", id.cpu}};
  if (id.below.frequency != 0) out.add("frequency", id.below.frequency);
  out.add("id", id.id);
  if (id.below.max_stack != 0) out.add("max_stack", id.below.max_stack);
  out.add("ring", id.ring);
  return out;
}

Object json_of(const ManifestTrigger& trigger) {
  return {{"event", trigger.event},
          {"filter", trigger.filter},
          {"format", trigger.format},
          {"name", trigger.name},
          {"off", trigger.off}};
}

Object json_of(const ManifestChannel& channel) {
  return {{"cpus", channel.cpus}, {"name", channel.name}, {"recorded", channel.recorded}};
}

Object json_of(const ManifestGap& gap) {
  return {{"begin_ns", gap.begin_ns}, {"cpu", gap.cpu}, {"end_ns", gap.end_ns}};
}

Object json_of(const EventCount& event) { return {{"id", event.id}, {"lost", event.lost}, {"value", event.value}}; }

Object json_of(const ManifestEvent& event) {
  std::array<std::uint8_t, kManifestAttrBytes> attr{};
  std::memcpy(attr.data(), &event.attr, std::min(sizeof event.attr, attr.size()));
  return {{"attr", to_hex(attr.data(), attr.size())},
          {"channel", event.channel},
          {"closed", event.closed},
          {"configured", event.configured},
          {"expected", event.expected},
          {"filter", event.filter},
          {"frequency", event.frequency},
          {"ids", json::objects_of(event.ids, json_of)},
          {"left_out", event.left_out},
          {"max_stack", event.max_stack},
          {"name", event.name},
          {"why", event.why}};
}

}  // namespace

bool is_recorded(const Manifest& manifest, const ManifestRing& ring) {
  return std::any_of(manifest.events.begin(), manifest.events.end(), [&](const ManifestEvent& event) {
    return event.channel == ring.channel && !event.closed &&
           std::find(event.left_out.begin(), event.left_out.end(), ring.cpu) == event.left_out.end();
  });
}

std::span<const int> recorded_cpus(const Manifest& manifest, std::string_view channel) {
  const auto at = std::find_if(manifest.channels.begin(), manifest.channels.end(),
                               [&](const ManifestChannel& one) { return one.name == channel; });
  return at == manifest.channels.end() ? std::span<const int>() : std::span<const int>(at->recorded);
}

bool any_channel_records(const Manifest& manifest, int cpu) {
  if (manifest.channels.empty()) return true;
  return std::any_of(manifest.events.begin(), manifest.events.end(), [&](const ManifestEvent& event) {
    if (event.channel.empty()) return false;
    const std::span<const int> cpus = recorded_cpus(manifest, event.channel);
    return cpus.empty() || std::binary_search(cpus.begin(), cpus.end(), cpu);
  });
}

std::string replaced_text(std::string_view channel, std::string_view why, std::string_view event) {
  if (event == kOmittedEvent) return fmt::format("channel '{}': {}: it is omitted", channel, why);
  return fmt::format("channel '{}': {}, {} is recorded instead", channel, why, event);
}

std::string gone_cpu_text(int cpu) { return fmt::format("CPU {} went offline: its history until then is kept", cpu); }

std::string_view to_string(RingKind kind) {
  switch (kind) {
    case RingKind::channel:
      return "channel";
    case RingKind::sideband:
      return "sideband";
    case RingKind::trigger:
      return "trigger";
  }
  return "channel";
}

std::string_view to_string(Delivery delivery) {
  switch (delivery) {
    case Delivery::unproven:
      return "unproven";
    case Delivery::on:
      return "on";
    case Delivery::silent:
      return "silent";
  }
  return "unproven";
}

perf_event_attr lowest_attr(const Manifest& manifest, const ManifestEvent& event) {
  perf_event_attr attr = event.attr;
  for (const ManifestId& id : event.ids) {
    const std::vector<std::uint64_t>& live = manifest.rings[id.ring].live_ids;
    if (!event.closed && std::find(live.begin(), live.end(), id.id) == live.end()) continue;
    if (attr.freq != 0 && id.below.frequency != 0)
      attr.sample_freq = std::min<std::uint64_t>(attr.sample_freq, id.below.frequency);
    if (id.below.max_stack != 0) attr.sample_max_stack = std::min(attr.sample_max_stack, id.below.max_stack);
  }
  return attr;
}

std::string encode(const Manifest& manifest) {
  Object formats;
  for (const auto& [name, format] : manifest.tracepoint_formats) formats.add(name, format);
  return json::dump(Object{{"boot_id", manifest.boot_id},
                           {"channels", json::objects_of(manifest.channels, json_of)},
                           {"config_digest", manifest.config_digest},
                           {"events", json::objects_of(manifest.events, json_of)},
                           {"gaps", json::objects_of(manifest.gaps, json_of)},
                           {"generation", manifest.generation},
                           {"header_event", manifest.header_event},
                           {"header_page", manifest.header_page},
                           {"lost_exact", manifest.lost_exact},
                           {"notes", manifest.notes},
                           {"missing", manifest.missing},
                           {"protocol", manifest.protocol},
                           {"recording", manifest.recording},
                           {"rings", json::objects_of(manifest.rings, json_of)},
                           {"tracepoint_formats", std::move(formats)},
                           {"triggers", json::objects_of(manifest.triggers, json_of)},
                           {"version", manifest.version},
                           {"warnings", manifest.warnings}});
}

std::string encode(const Counts& counts) {
  return json::dump(Object{{"broker_cpu_seconds", counts.broker_cpu_seconds},
                           {"broker_pid", counts.broker_pid},
                           {"broker_rss_bytes", counts.broker_rss_bytes},
                           {"broker_uptime_seconds", counts.broker_uptime_seconds},
                           {"build_ids_waiting", counts.build_ids_waiting},
                           {"delivery", to_string(counts.delivery)},
                           {"events", json::objects_of(counts.events, json_of)},
                           {"time_ns", counts.time_ns},
                           {"unseen", json::array_of(counts.unseen, [](const std::string& name) { return name; })}});
}

}  // namespace flight
