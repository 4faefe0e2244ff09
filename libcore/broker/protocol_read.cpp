// SPDX-License-Identifier: Apache-2.0
// Reads the manifest and the counts. They come from the other side of the broker protocol: every member is required
// and checked, except for what an older program of the same protocol does not write.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <unordered_set>

#include "libcore/broker/hex.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/json/parse.hpp"
#include "libcore/json/reader.hpp"

namespace flight {
namespace {

constexpr int kMaxCpu = 65535;
constexpr std::size_t kMaxEvents = 65536;
constexpr std::size_t kMaxTracepoints = 65536;
constexpr std::size_t kMaxWarnings = 65536;
constexpr std::size_t kMaxManifestTriggers = 1024;
constexpr std::size_t kMinRingBytes = 4096;

void read_ring(const json::Reader& in, ManifestRing& ring) {
  in.word("kind", {RingKind::channel, RingKind::sideband, RingKind::trigger}, ring.kind);
  in.read("channel", ring.channel);
  in.count("cpu", ring.cpu, kMaxCpu);
  in.count("ring_bytes", ring.ring_bytes, kMaxRingBytes);
  in.read("enabled_ns", ring.enabled_ns);
  in.read("online", ring.online);
  in.read("owner_id", ring.owner_id);
  in.read("owner_died", ring.owner_died);
  in.values("live_ids", ring.live_ids, kMaxEvents);
  if ((ring.kind == RingKind::sideband) != ring.channel.empty())
    in.refuse("a channel's ring has a channel, the sideband's has none");
  if (!std::has_single_bit(ring.ring_bytes) || ring.ring_bytes < kMinRingBytes)
    in.refuse(fmt::format("'ring_bytes' {} is not a power of two from {}", ring.ring_bytes, kMinRingBytes));
}

// An id must belong to a ring of its own CPU and channel: consumers index by it.
void read_id(const json::Reader& in, const std::vector<ManifestRing>& rings, const std::string& channel,
             ManifestId& id) {
  in.read("id", id.id);
  in.count("cpu", id.cpu, kMaxCpu);
  in.read("ring", id.ring);
  if (in.has("frequency")) in.read("frequency", id.below.frequency);
  if (in.has("max_stack")) in.read("max_stack", id.below.max_stack);
  if (!in.ok()) return;
  if (id.ring >= rings.size()) return in.refuse(fmt::format("id {} is in ring {} of {}", id.id, id.ring, rings.size()));
  const ManifestRing& ring = rings[id.ring];
  if (ring.cpu != id.cpu || ring.channel != channel || ring.kind == RingKind::trigger)
    in.refuse(fmt::format("id {} of CPU {} is in ring {}, which belongs to CPU {} and channel '{}'", id.id, id.cpu,
                          id.ring, ring.cpu, ring.channel));
}

void read_attr(const json::Reader& in, perf_event_attr& attr) {
  std::string digits;
  in.read("attr", digits);
  std::vector<std::uint8_t> bytes;
  if (!from_hex(digits, bytes, kManifestAttrBytes) || bytes.size() != kManifestAttrBytes)
    return in.refuse("attr", fmt::format("a whole perf_event_attr, {} bytes in hex", kManifestAttrBytes));
  std::memcpy(&attr, bytes.data(), std::min(bytes.size(), sizeof attr));
}

// `sideband`: it is the first event.
void read_event(const json::Reader& in, const std::vector<ManifestRing>& rings, bool sideband, ManifestEvent& event) {
  in.read("channel", event.channel);
  in.read("name", event.name);
  in.read("filter", event.filter);
  in.read("frequency", event.frequency);
  in.read("max_stack", event.max_stack);
  in.read("closed", event.closed);
  in.read("configured", event.configured);
  in.read("why", event.why);
  in.read("expected", event.expected);
  if (in.has("left_out")) in.values("left_out", event.left_out, kMaxCpu);
  if (std::any_of(event.left_out.begin(), event.left_out.end(), [](int cpu) { return cpu < 0 || cpu > kMaxCpu; }))
    in.refuse("left_out", "CPUs");
  read_attr(in, event.attr);
  constexpr std::uint64_t kNeeded = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
  if ((event.attr.sample_type & kNeeded) != kNeeded || event.attr.sample_id_all == 0)
    in.refuse("its records have no id or no time");
  if (sideband != event.channel.empty()) in.refuse("event 0 must be the sideband's, and no other");
  in.list(
      "ids", event.ids, [&](const json::Reader& of_id, ManifestId& id) { read_id(of_id, rings, event.channel, id); },
      kMaxRings);
}

void read_trigger(const json::Reader& in, ManifestTrigger& trigger) {
  in.need("name", trigger.name);
  in.read("event", trigger.event);
  in.read("filter", trigger.filter);
  in.read("format", trigger.format);
  in.read("off", trigger.off);
}

void read_cpus(const json::Reader& in, const char* key, std::vector<int>& cpus) {
  in.values(key, cpus, kMaxCpu + 1);
  const bool rising = std::adjacent_find(cpus.begin(), cpus.end(), std::greater_equal<>()) == cpus.end();
  if (!rising || (!cpus.empty() && (cpus.front() < 0 || cpus.back() > kMaxCpu)))
    in.refuse(key, "CPUs, each once and in ascending order");
}

void read_channel(const json::Reader& in, ManifestChannel& channel) {
  in.need("name", channel.name);
  read_cpus(in, "cpus", channel.cpus);
  read_cpus(in, "recorded", channel.recorded);
}

void read_gap(const json::Reader& in, ManifestGap& gap) {
  in.count("cpu", gap.cpu, kMaxCpu);
  in.read("begin_ns", gap.begin_ns);
  in.read("end_ns", gap.end_ns);
}

void read_manifest(const json::Reader& in, Manifest& manifest) {
  in.read("protocol", manifest.protocol);
  if (manifest.protocol != kBrokerProtocol)
    in.refuse(fmt::format("it has protocol {}, this program uses {}: {}", manifest.protocol, kBrokerProtocol,
                          kProtocolAdvice));
  in.read("generation", manifest.generation);
  in.read("recording", manifest.recording);
  in.read("version", manifest.version);
  in.read("boot_id", manifest.boot_id);
  in.read("config_digest", manifest.config_digest);
  in.read("header_page", manifest.header_page);
  in.read("header_event", manifest.header_event);
  in.read("lost_exact", manifest.lost_exact);
  in.values("warnings", manifest.warnings, kMaxWarnings);
  in.values("notes", manifest.notes, kMaxWarnings);
  if (in.has("missing")) in.values("missing", manifest.missing, kMaxWarnings);
  in.texts("tracepoint_formats", manifest.tracepoint_formats, kMaxTracepoints);
  in.list("rings", manifest.rings, read_ring, kMaxRings);
  const auto read_one = [&](const json::Reader& of_event, ManifestEvent& event) {
    read_event(of_event, manifest.rings, manifest.events.size() == 1, event);
  };
  in.list("events", manifest.events, read_one, kMaxEvents);
  if (manifest.events.empty()) in.refuse("it has no events");
  in.list("triggers", manifest.triggers, read_trigger, kMaxManifestTriggers);
  in.list("gaps", manifest.gaps, read_gap, kMaxGaps);
  if (in.has("channels")) in.list("channels", manifest.channels, read_channel, kMaxEvents);
}

Result<void> check_ids_unique(const Manifest& manifest) {
  std::unordered_set<std::uint64_t> seen;
  for (const ManifestEvent& event : manifest.events)
    for (const ManifestId& id : event.ids) {
      if (!seen.insert(id.id).second)
        return fail(std::errc::bad_message, "the manifest has the id {} of event {} twice", id.id, event.name);
      if (seen.size() > kMaxIds) return fail(std::errc::bad_message, "the manifest has more than {} ids", kMaxIds);
    }
  return {};
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) {
  const auto value = json::parse(text, {.max_bytes = kMaxManifestBytes});
  if (!value) return wrap(value.error(), "manifest");
  Manifest manifest;
  const auto read = json::read_object(*value, json::Missing::is_an_error,
                                      [&](const json::Reader& in) { read_manifest(in, manifest); });
  if (!read) return wrap(read.error(), "manifest");
  if (auto unique = check_ids_unique(manifest); !unique) return propagate(unique.error());
  return manifest;
}

Result<Counts> parse_counts(std::string_view text) {
  const auto value = json::parse(text, {.max_bytes = kMaxCountsBytes});
  if (!value) return wrap(value.error(), "broker's counts");
  Counts counts;
  const auto read = json::read_object(*value, json::Missing::is_an_error, [&](const json::Reader& in) {
    in.read("time_ns", counts.time_ns);
    in.word("delivery", {Delivery::unproven, Delivery::on, Delivery::silent}, counts.delivery);
    in.count("broker_pid", counts.broker_pid, INT32_MAX);
    in.read("broker_cpu_seconds", counts.broker_cpu_seconds);
    in.read("broker_uptime_seconds", counts.broker_uptime_seconds);
    in.read("broker_rss_bytes", counts.broker_rss_bytes);
    if (in.has("build_ids_waiting")) in.read("build_ids_waiting", counts.build_ids_waiting);
    const auto read_event = [](const json::Reader& of_event, EventCount& count) {
      of_event.read("id", count.id);
      of_event.read("value", count.value);
      of_event.read("lost", count.lost);
    };
    in.list("events", counts.events, read_event, kMaxIds);
    if (in.has("unseen")) in.values("unseen", counts.unseen, kMaxEvents);
  });
  if (!read) return wrap(read.error(), "broker's counts");
  return counts;
}

}  // namespace flight
