// SPDX-License-Identifier: Apache-2.0
// GetStatus' object, written and read. Reading is lenient: a newer or stranger daemon's status is shown as far as it
// goes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "libcore/control/json_depth.hpp"
#include "libcore/control/messages.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity.
double finite(double value) { return std::isfinite(value) ? value : 0.0; }

Json of_process(const StatusProcess& process) {
  return {{"pid", process.pid}, {"cpu_seconds", finite(process.cpu_seconds)}, {"rss_bytes", process.rss_bytes}};
}

Json of_channel(const StatusChannel& channel) {
  Json events = Json::array();
  for (const StatusEvent& event : channel.events)
    events.push_back({{"event", event.event},
                      {"per_second", finite(event.per_second)},
                      {"bytes_per_second", finite(event.bytes_per_second)}});
  return {{"name", channel.name},
          {"events", std::move(events)},
          {"history_seconds",
           {{"min", finite(channel.history_min_seconds)}, {"max", finite(channel.history_max_seconds)}}}};
}

// An object's member, or null where there is none or `json` is no object.
const Json& at(const Json& json, const char* key) {
  static const Json nothing;
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() ? *found : nothing;
}

std::string text_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

double number_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_number() ? finite(value.get<double>()) : 0.0;
}

bool flag_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_boolean() && value.get<bool>();
}

std::uint64_t count_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

int int_at(const Json& json, const char* key) {
  return static_cast<int>(std::min<std::uint64_t>(count_at(json, key), std::numeric_limits<int>::max()));
}

StatusProcess process_at(const Json& json, const char* key) {
  const Json& process = at(json, key);
  return {int_at(process, "pid"), number_at(process, "cpu_seconds"), count_at(process, "rss_bytes")};
}

// Calls `each` for the members of an array, for nothing where it is none.
template <typename Each>
void for_each_at(const Json& json, const char* key, Each each) {
  const Json& array = at(json, key);
  if (!array.is_array()) return;
  for (const Json& one : array) each(one);
}

StatusChannel channel_of(const Json& json) {
  StatusChannel channel;
  channel.name = text_at(json, "name");
  for_each_at(json, "events", [&](const Json& event) {
    channel.events.push_back(
        {text_at(event, "event"), number_at(event, "per_second"), number_at(event, "bytes_per_second")});
  });
  channel.history_min_seconds = number_at(at(json, "history_seconds"), "min");
  channel.history_max_seconds = number_at(at(json, "history_seconds"), "max");
  return channel;
}

}  // namespace

std::string to_json(const Status& status) {
  Json rings = Json::array();
  for (const StatusRing& ring : status.rings)
    rings.push_back({{"channel", ring.channel},
                     {"cpu", ring.cpu},
                     {"ring_bytes", ring.ring_bytes},
                     {"history_seconds", finite(ring.history_seconds)}});
  Json channels = Json::array();
  for (const StatusChannel& channel : status.channels) channels.push_back(of_channel(channel));

  Json json;
  json["version"] = status.version;
  json["uptime_seconds"] = finite(status.uptime_seconds);
  json["cpus"] = status.cpus;
  json["recording"] = status.recording;
  json["paused"] = status.paused;
  json["rings"] = std::move(rings);
  json["channels"] = std::move(channels);
  json["snapshots"] = status.snapshots;
  json["store"] = {{"bytes", status.store_bytes}, {"max_bytes", status.store_max_bytes}};
  json["self"] = {{"flightd", of_process(status.flightd)},
                  {"broker", of_process(status.broker)},
                  {"staging_bytes", status.staging_bytes},
                  {"ring_bytes", status.ring_bytes}};
  json["last_snapshot"] = status.last_snapshot ? Json(*status.last_snapshot) : Json();
  if (status.last) {
    const StatusLast& last = *status.last;
    json["last_snapshot_time"] = last.time;
    json["last_snapshot_trigger"] = last.trigger;
    json["last_snapshot_timings_us"] = {{"queued", last.queued_us}, {"freeze", last.freeze_us},
                                        {"walk", last.walk_us},     {"merge", last.merge_us},
                                        {"write", last.write_us},   {"total", last.total_us}};
  }
  json["warnings"] = status.warnings;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Status> parse_status(std::string_view text) {
  const Json json = nests_too_deep(text) ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return fail(std::errc::bad_message, "the status is no JSON object");
  Status status;
  status.version = text_at(json, "version");
  status.uptime_seconds = number_at(json, "uptime_seconds");
  status.cpus = int_at(json, "cpus");
  status.recording = flag_at(json, "recording");
  status.paused = flag_at(json, "paused");
  for_each_at(json, "rings", [&](const Json& ring) {
    status.rings.push_back({text_at(ring, "channel"), int_at(ring, "cpu"), count_at(ring, "ring_bytes"),
                            number_at(ring, "history_seconds")});
  });
  for_each_at(json, "channels", [&](const Json& channel) { status.channels.push_back(channel_of(channel)); });
  status.snapshots = count_at(json, "snapshots");
  status.store_bytes = count_at(at(json, "store"), "bytes");
  status.store_max_bytes = count_at(at(json, "store"), "max_bytes");
  const Json& self = at(json, "self");
  status.flightd = process_at(self, "flightd");
  status.broker = process_at(self, "broker");
  status.staging_bytes = count_at(self, "staging_bytes");
  status.ring_bytes = count_at(self, "ring_bytes");
  if (at(json, "last_snapshot").is_string()) status.last_snapshot = text_at(json, "last_snapshot");
  if (const Json& us = at(json, "last_snapshot_timings_us"); us.is_object())
    status.last = StatusLast{.time = text_at(json, "last_snapshot_time"),
                             .trigger = text_at(json, "last_snapshot_trigger"),
                             .queued_us = count_at(us, "queued"),
                             .freeze_us = count_at(us, "freeze"),
                             .walk_us = count_at(us, "walk"),
                             .merge_us = count_at(us, "merge"),
                             .write_us = count_at(us, "write"),
                             .total_us = count_at(us, "total")};
  for_each_at(json, "warnings", [&](const Json& warning) {
    if (warning.is_string()) status.warnings.push_back(warning.get<std::string>());
  });
  return status;
}

}  // namespace flight
