// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/protocol.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "libcore/broker/hex.hpp"

namespace flight {
namespace {

using nlohmann::json;

constexpr std::size_t kWallAttrBytes = 128;  // PERF_ATTR_SIZE_VER7; longer attrs are zero behind it
constexpr std::uint64_t kMaxCpu = 65535;
constexpr std::uint64_t kAny = UINT64_MAX;
constexpr std::size_t kMaxEvents = 65536;
constexpr std::size_t kMaxKernelMaps = 65536;
constexpr std::size_t kMaxTracepoints = 65536;
constexpr std::size_t kMaxWarnings = 65536;
constexpr std::size_t kMaxWallTriggers = 1024;
constexpr std::size_t kMaxBuildIdBytes = 20;
constexpr std::size_t kMinRingBytes = 4096;

std::string dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

// One object of a document from across the wall. Each member is checked as it is taken; the first fault is kept.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse("it is no object");
  }

  template <std::integral T>
  void number(const char* key, T& out, std::uint64_t most = kAny) {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > most)
      return refuse(fmt::format("'{}' is no number from 0 to {}", key, most));
    out = static_cast<T>(value->get<std::uint64_t>());
  }
  void number(const char* key, double& out) {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_number()) return refuse(fmt::format("'{}' is no number", key));
    out = value->get<double>();
  }
  void flag(const char* key, bool& out) {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return refuse(fmt::format("'{}' is neither true nor false", key));
    out = value->get<bool>();
  }
  void text(const char* key, std::string& out) {
    const json* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return refuse(fmt::format("'{}' is no string", key));
    out = value->get_ref<const std::string&>();
  }
  void hex(const char* key, std::vector<std::uint8_t>& out, std::size_t most) {
    std::string digits;
    text(key, digits);
    if (ok() && !from_hex(digits, out, most)) refuse(fmt::format("'{}' is no hex of at most {} bytes", key, most));
  }
  // The array `key`; an empty one after a fault.
  const json& array(const char* key, std::size_t most) {
    static const json kEmpty = json::array();
    const json* value = find(key);
    if (value != nullptr && (!value->is_array() || value->size() > most))
      refuse(fmt::format("'{}' is no array of at most {}", key, most));
    return ok() && value != nullptr ? *value : kEmpty;
  }
  const json& object(const char* key, std::size_t most) {
    static const json kEmpty = json::object();
    const json* value = find(key);
    if (value != nullptr && (!value->is_object() || value->size() > most))
      refuse(fmt::format("'{}' is no object of at most {} members", key, most));
    return ok() && value != nullptr ? *value : kEmpty;
  }

  void refuse(std::string_view why) {
    if (ok()) fault_ = fmt::format("{}: {}", where_, why);
  }
  [[nodiscard]] bool ok() const { return fault_.empty(); }
  [[nodiscard]] Result<void> result() const {
    if (ok()) return {};
    return fail(std::errc::bad_message, "{}", fault_);
  }

 private:
  const json* find(const char* key) {
    if (!ok()) return nullptr;
    const auto at = object_.find(key);
    if (at != object_.end()) return &*at;
    refuse(fmt::format("'{}' is missing", key));
    return nullptr;
  }
  const json& object_;
  std::string where_;
  std::string fault_;
};

// By RingKind.
constexpr std::array<std::string_view, 3> kKinds{"channel", "sideband", "trigger"};

json to_json(const ManifestRing& ring) {
  return {{"kind", kKinds.at(static_cast<std::size_t>(ring.kind))},
          {"channel", ring.channel},
          {"cpu", ring.cpu},
          {"ring_bytes", ring.ring_bytes},
          {"enabled_ns", ring.enabled_ns},
          {"online", ring.online},
          {"owner_id", ring.owner_id},
          {"owner_died", ring.owner_died},
          {"live_ids", ring.live_ids}};
}

json to_json(const ManifestEvent& event) {
  json ids = json::array();
  for (const ManifestId& id : event.ids) ids.push_back({{"id", id.id}, {"cpu", id.cpu}, {"ring", id.ring}});
  std::array<std::uint8_t, kWallAttrBytes> attr{};
  std::memcpy(attr.data(), &event.attr, std::min(sizeof event.attr, attr.size()));
  return {{"channel", event.channel}, {"name", event.name},     {"attr", to_hex(attr.data(), attr.size())},
          {"filter", event.filter},   {"closed", event.closed}, {"ids", std::move(ids)}};
}

json to_json(const ManifestKernelMap& map) {
  return {{"name", map.name},
          {"address", map.address},
          {"bytes", map.bytes},
          {"page_offset", map.page_offset},
          {"build_id", to_hex(map.build_id.data(), map.build_id.size())}};
}

Result<ManifestRing> parse_ring(const json& value, std::size_t index) {
  Fields fields(value, fmt::format("ring {}", index));
  ManifestRing ring;
  std::string kind;
  fields.text("kind", kind);
  fields.text("channel", ring.channel);
  fields.number("cpu", ring.cpu, kMaxCpu);
  fields.number("ring_bytes", ring.ring_bytes, kMaxRingBytes);
  fields.number("enabled_ns", ring.enabled_ns);
  fields.flag("online", ring.online);
  fields.number("owner_id", ring.owner_id);
  fields.flag("owner_died", ring.owner_died);
  for (const json& id : fields.array("live_ids", kMaxEvents)) {
    if (!id.is_number_unsigned()) fields.refuse("an id is no number");
    if (id.is_number_unsigned()) ring.live_ids.push_back(id.get<std::uint64_t>());
  }
  const auto known = std::find(kKinds.begin(), kKinds.end(), kind);
  if (known == kKinds.end())
    fields.refuse("'kind' is neither channel nor sideband nor trigger");
  else
    ring.kind = static_cast<RingKind>(known - kKinds.begin());
  if ((ring.kind == RingKind::sideband) != ring.channel.empty())
    fields.refuse("a channel's ring has a channel, the sideband's has none");
  if (!std::has_single_bit(ring.ring_bytes) || ring.ring_bytes < kMinRingBytes)
    fields.refuse(fmt::format("'ring_bytes' {} is no power of two from {}", ring.ring_bytes, kMinRingBytes));
  if (auto checked = fields.result(); !checked) return pass(checked.error());
  return ring;
}

// An id must belong to a ring of its own CPU and channel: a consumer indexes by it.
void parse_ids(Fields& fields, const std::vector<ManifestRing>& rings, ManifestEvent& event) {
  for (const json& value : fields.array("ids", kMaxRings)) {
    Fields members(value, "an id");
    ManifestId id;
    members.number("id", id.id);
    members.number("cpu", id.cpu, kMaxCpu);
    members.number("ring", id.ring, UINT32_MAX);
    if (auto checked = members.result(); !checked) return fields.refuse(checked.error().what);
    if (id.ring >= rings.size())
      return fields.refuse(fmt::format("id {} is in ring {} of {}", id.id, id.ring, rings.size()));
    if (rings[id.ring].cpu != id.cpu || rings[id.ring].channel != event.channel ||
        rings[id.ring].kind == RingKind::trigger)
      return fields.refuse(fmt::format("id {} of CPU {} is in ring {}, which is of CPU {} and channel '{}'", id.id,
                                       id.cpu, id.ring, rings[id.ring].cpu, rings[id.ring].channel));
    event.ids.push_back(id);
  }
}

Result<ManifestEvent> parse_manifest_event(const json& value, std::size_t index,
                                           const std::vector<ManifestRing>& rings) {
  Fields fields(value, fmt::format("event {}", index));
  ManifestEvent event;
  std::vector<std::uint8_t> attr;
  fields.text("channel", event.channel);
  fields.text("name", event.name);
  fields.text("filter", event.filter);
  fields.flag("closed", event.closed);
  fields.hex("attr", attr, kWallAttrBytes);
  if (attr.size() != kWallAttrBytes) fields.refuse("'attr' is not a whole perf_event_attr");
  if (fields.ok()) std::memcpy(&event.attr, attr.data(), std::min(attr.size(), sizeof event.attr));
  constexpr std::uint64_t kNeeded = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
  if ((event.attr.sample_type & kNeeded) != kNeeded || event.attr.sample_id_all == 0)
    fields.refuse("its records carry no id or no time");
  if ((index == 0) != event.channel.empty()) fields.refuse("event 0, and no other, is the sideband's");
  parse_ids(fields, rings, event);
  if (auto checked = fields.result(); !checked) return pass(checked.error());
  return event;
}

Result<ManifestTrigger> parse_trigger(const json& value, std::size_t index) {
  Fields fields(value, fmt::format("trigger {}", index));
  ManifestTrigger trigger;
  fields.text("name", trigger.name);
  fields.text("event", trigger.event);
  fields.text("filter", trigger.filter);
  fields.text("format", trigger.format);
  fields.text("off", trigger.off);
  if (trigger.name.empty()) fields.refuse("'name' is empty");
  if (auto checked = fields.result(); !checked) return pass(checked.error());
  return trigger;
}

Result<ManifestGap> parse_gap(const json& value, std::size_t index) {
  Fields fields(value, fmt::format("gap {}", index));
  ManifestGap gap;
  fields.number("cpu", gap.cpu, kMaxCpu);
  fields.number("begin_ns", gap.begin_ns);
  fields.number("end_ns", gap.end_ns);
  if (auto checked = fields.result(); !checked) return pass(checked.error());
  return gap;
}

Result<ManifestKernelMap> parse_kernel_map(const json& value, std::size_t index) {
  Fields fields(value, fmt::format("kernel map {}", index));
  ManifestKernelMap map;
  fields.text("name", map.name);
  fields.number("address", map.address);
  fields.number("bytes", map.bytes);
  fields.number("page_offset", map.page_offset);
  fields.hex("build_id", map.build_id, kMaxBuildIdBytes);
  if (auto checked = fields.result(); !checked) return pass(checked.error());
  return map;
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

// Every element of `array` by `parse` into `out`.
template <typename T, typename Parse>
Result<void> parse_all(const json& array, std::vector<T>& out, const Parse& parse) {
  out.reserve(array.size());
  for (const json& value : array) {
    auto parsed = parse(value, out.size());
    if (!parsed) return wrap(parsed.error(), "manifest");
    out.push_back(std::move(*parsed));
  }
  return {};
}

Result<json> parse_document(std::string_view text, const char* what, std::size_t max_bytes) {
  if (text.size() > max_bytes)
    return fail(std::errc::message_size, "the {} has {} bytes, at most {} are taken", what, text.size(), max_bytes);
  json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return fail(std::errc::bad_message, "the {} is no JSON", what);
  return document;
}

}  // namespace

std::string encode(const Manifest& manifest) {
  json document = {{"protocol", manifest.protocol},
                   {"generation", manifest.generation},
                   {"recording", manifest.recording},
                   {"version", manifest.version},
                   {"boot_id", manifest.boot_id},
                   {"config_digest", manifest.config_digest},
                   {"rings", json::array()},
                   {"events", json::array()},
                   {"triggers", json::array()},
                   {"gaps", json::array()},
                   {"kernel_maps", json::array()},
                   {"tracepoint_formats", manifest.tracepoint_formats},
                   {"header_page", manifest.header_page},
                   {"header_event", manifest.header_event},
                   {"lost_exact", manifest.lost_exact},
                   {"warnings", manifest.warnings}};
  for (const ManifestRing& ring : manifest.rings) document["rings"].push_back(to_json(ring));
  for (const ManifestEvent& event : manifest.events) document["events"].push_back(to_json(event));
  for (const ManifestTrigger& trigger : manifest.triggers)
    document["triggers"].push_back({{"name", trigger.name},
                                    {"event", trigger.event},
                                    {"filter", trigger.filter},
                                    {"format", trigger.format},
                                    {"off", trigger.off}});
  for (const ManifestGap& gap : manifest.gaps)
    document["gaps"].push_back({{"cpu", gap.cpu}, {"begin_ns", gap.begin_ns}, {"end_ns", gap.end_ns}});
  for (const ManifestKernelMap& map : manifest.kernel_maps) document["kernel_maps"].push_back(to_json(map));
  return dump(document);
}

Result<Manifest> parse_manifest(std::string_view text) {
  auto document = parse_document(text, "manifest", kMaxManifestBytes);
  if (!document) return pass(document.error());
  Fields fields(*document, "manifest");
  Manifest manifest;
  fields.number("protocol", manifest.protocol, UINT16_MAX);
  if (manifest.protocol != kWallProtocol)
    fields.refuse(fmt::format("it is of protocol {}, this program speaks {}: {}", manifest.protocol, kWallProtocol,
                              kMendProtocol));
  fields.number("generation", manifest.generation);
  fields.number("recording", manifest.recording);
  fields.text("version", manifest.version);
  fields.text("boot_id", manifest.boot_id);
  fields.text("config_digest", manifest.config_digest);
  fields.text("header_page", manifest.header_page);
  fields.text("header_event", manifest.header_event);
  fields.flag("lost_exact", manifest.lost_exact);
  const json& rings = fields.array("rings", kMaxRings);
  const json& events = fields.array("events", kMaxEvents);
  const json& triggers = fields.array("triggers", kMaxWallTriggers);
  const json& gaps = fields.array("gaps", kMaxGaps);
  const json& maps = fields.array("kernel_maps", kMaxKernelMaps);
  for (const json& warning : fields.array("warnings", kMaxWarnings)) {
    if (!warning.is_string()) fields.refuse("a warning is no string");
    if (warning.is_string()) manifest.warnings.push_back(warning.get<std::string>());
  }
  for (const auto& [name, format] : fields.object("tracepoint_formats", kMaxTracepoints).items()) {
    if (!format.is_string()) fields.refuse("a tracepoint's format is no string");
    if (format.is_string()) manifest.tracepoint_formats.emplace(name, format.get<std::string>());
  }
  if (events.empty()) fields.refuse("it has no event");
  if (auto checked = fields.result(); !checked) return pass(checked.error());

  if (auto done = parse_all(rings, manifest.rings, parse_ring); !done) return pass(done.error());
  const auto parse_one = [&](const json& value, std::size_t index) {
    return parse_manifest_event(value, index, manifest.rings);
  };
  if (auto done = parse_all(events, manifest.events, parse_one); !done) return pass(done.error());
  if (auto done = parse_all(triggers, manifest.triggers, parse_trigger); !done) return pass(done.error());
  if (auto done = parse_all(gaps, manifest.gaps, parse_gap); !done) return pass(done.error());
  if (auto done = parse_all(maps, manifest.kernel_maps, parse_kernel_map); !done) return pass(done.error());
  if (auto unique = check_ids_unique(manifest); !unique) return pass(unique.error());
  return manifest;
}

std::string encode(const Counts& counts) {
  json events = json::array();
  for (const EventCount& event : counts.events)
    events.push_back({{"id", event.id}, {"value", event.value}, {"lost", event.lost}});
  return dump({{"time_ns", counts.time_ns},
               {"events", std::move(events)},
               {"broker_pid", counts.broker_pid},
               {"broker_cpu_seconds", counts.broker_cpu_seconds},
               {"broker_rss_bytes", counts.broker_rss_bytes}});
}

Result<Counts> parse_counts(std::string_view text) {
  auto document = parse_document(text, "broker's counts", kMaxCountsBytes);
  if (!document) return pass(document.error());
  Fields fields(*document, "counts");
  Counts counts;
  fields.number("time_ns", counts.time_ns);
  fields.number("broker_pid", counts.broker_pid, INT32_MAX);
  fields.number("broker_cpu_seconds", counts.broker_cpu_seconds);
  fields.number("broker_rss_bytes", counts.broker_rss_bytes);
  for (const json& value : fields.array("events", kMaxIds)) {
    Fields members(value, "an event's count");
    EventCount count;
    members.number("id", count.id);
    members.number("value", count.value);
    members.number("lost", count.lost);
    if (auto checked = members.result(); !checked) return pass(checked.error());
    counts.events.push_back(count);
  }
  if (auto checked = fields.result(); !checked) return pass(checked.error());
  return counts;
}

}  // namespace flight
