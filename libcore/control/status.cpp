// SPDX-License-Identifier: Apache-2.0
// Writes and reads the object of GetStatus. Reading is lenient: the known parts of a newer daemon's status are shown.
#include <algorithm>
#include <limits>

#include "libcore/base/finite.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/json/parse.hpp"

namespace flight {
namespace {

using json::Array;
using json::Object;
using json::Value;

Object of_process(const StatusProcess& process) {
  Object json{{"pid", process.pid}, {"cpu_seconds", finite(process.cpu_seconds)}, {"rss_bytes", process.rss_bytes}};
  if (process.uptime_seconds > 0) json.add("uptime_seconds", finite(process.uptime_seconds));
  return json;
}

Object of_self(const Status& status) {
  Object out{{"flightd", of_process(status.flightd)}, {"broker", of_process(status.broker)},
             {"staging_bytes", status.staging_bytes}, {"ring_bytes", status.ring_bytes},
             {"tracker_bytes", status.tracker_bytes}, {"tracker_max_bytes", status.tracker_max_bytes}};
  if (status.build_ids_waiting > 0) out.add("build_ids_waiting", status.build_ids_waiting);
  return out;
}

Object of_channel(const StatusChannel& channel) {
  Object out{{"name", channel.name},
             {"events", json::array_of(channel.events,
                                       [](const StatusEvent& event) {
                                         return Object{{"event", event.event},
                                                       {"per_second", finite(event.per_second)},
                                                       {"bytes_per_second", finite(event.bytes_per_second)}};
                                       })},
             {"history_seconds",
              Object{{"min", finite(channel.history_min_seconds)}, {"max", finite(channel.history_max_seconds)}}}};
  if (!channel.cpus.empty()) out.add("cpus", channel.cpus);
  return out;
}

Object of_ring(const StatusRing& ring) {
  return {{"channel", ring.channel},
          {"cpu", ring.cpu},
          {"ring_bytes", ring.ring_bytes},
          {"history_seconds", finite(ring.history_seconds)}};
}

void add_last(Object& object, const StatusLast& last) {
  object.add("last_snapshot_time", last.time);
  if (last.age_seconds) object.add("last_snapshot_age_seconds", finite(*last.age_seconds));
  object.add("last_snapshot_trigger", last.trigger);
  object.add("last_snapshot_timings_us", Object{{"queued", last.queued_us},
                                                {"freeze", last.freeze_us},
                                                {"walk", last.walk_us},
                                                {"merge", last.merge_us},
                                                {"write", last.write_us},
                                                {"total", last.total_us}});
}

void add_messages(Object& object, const Status& status) {
  Array warnings, messages;
  for (const auto* texts : {&status.errors, &status.warnings})
    for (const std::string& text : *texts) warnings.emplace_back(text);
  for (const auto& [severity, texts] :
       {std::pair("error", &status.errors), {"warning", &status.warnings}, {"info", &status.notes}})
    for (const std::string& text : *texts) messages.emplace_back(Object{{"severity", severity}, {"text", text}});
  object.add("warnings", std::move(warnings));
  object.add("messages", std::move(messages));
}

double number_at(const Value& value, const char* key) { return finite(value.at(key).number().value_or(0)); }

int int_at(const Value& value, const char* key) {
  return static_cast<int>(std::min<std::uint64_t>(value.at(key).count_or_zero(), std::numeric_limits<int>::max()));
}

std::string text_at(const Value& value, const char* key) { return value.at(key).text_or_empty(); }

bool flag_at(const Value& value, const char* key) { return value.at(key).flag().value_or(false); }

StatusProcess process_of(const Value& process) {
  return {int_at(process, "pid"), number_at(process, "cpu_seconds"), process.at("rss_bytes").count_or_zero(),
          number_at(process, "uptime_seconds")};
}

StatusChannel channel_of(const Value& value) {
  StatusChannel channel;
  channel.name = text_at(value, "name");
  for (const Value& event : value.at("events").items())
    channel.events.push_back(
        {text_at(event, "event"), number_at(event, "per_second"), number_at(event, "bytes_per_second")});
  channel.history_min_seconds = number_at(value.at("history_seconds"), "min");
  channel.history_max_seconds = number_at(value.at("history_seconds"), "max");
  channel.cpus = text_at(value, "cpus");
  return channel;
}

StatusLast last_of(const Value& value) {
  const Value& us = value.at("last_snapshot_timings_us");
  return {.time = text_at(value, "last_snapshot_time"),
          .trigger = text_at(value, "last_snapshot_trigger"),
          .queued_us = us.at("queued").count_or_zero(),
          .freeze_us = us.at("freeze").count_or_zero(),
          .walk_us = us.at("walk").count_or_zero(),
          .merge_us = us.at("merge").count_or_zero(),
          .write_us = us.at("write").count_or_zero(),
          .total_us = us.at("total").count_or_zero(),
          .age_seconds = value.at("last_snapshot_age_seconds").number()};
}

void read_messages(const Value& value, Status& status) {
  for (const Value& message : value.at("messages").items()) {
    const std::string severity = text_at(message, "severity");
    auto& texts = severity == "error" ? status.errors : severity == "info" ? status.notes : status.warnings;
    texts.push_back(text_at(message, "text"));
  }
  if (value.at("messages").is_array()) return;
  for (const Value& warning : value.at("warnings").items())  // of flightd 0.1
    if (warning.text() != nullptr) status.warnings.push_back(*warning.text());
}

RecordingState recording_at(const Value& value, bool paused) {
  const std::string word = text_at(value, "recording");
  for (const RecordingState state : {RecordingState::on, RecordingState::silent, RecordingState::unproven,
                                     RecordingState::paused, RecordingState::off})
    if (word == to_string(state)) return state;
  // flightd 0.1 says true or false.
  if (flag_at(value, "recording")) return RecordingState::on;
  return paused ? RecordingState::paused : RecordingState::off;
}

}  // namespace

std::string_view to_string(RecordingState state) {
  switch (state) {
    case RecordingState::on:
      return "on";
    case RecordingState::silent:
      return "silent";
    case RecordingState::unproven:
      return "unproven";
    case RecordingState::paused:
      return "paused";
    case RecordingState::off:
      return "off";
  }
  return "off";
}

std::string to_json(const Status& status) {
  Object object{{"version", status.version},
                {"uptime_seconds", finite(status.uptime_seconds)},
                {"cpus", status.cpus},
                {"recording", to_string(status.recording)},
                {"paused", status.paused},
                {"rings", json::array_of(status.rings, of_ring)},
                {"channels", json::array_of(status.channels, of_channel)},
                {"snapshots", status.snapshots},
                {"store", Object{{"bytes", status.store_bytes}, {"max_bytes", status.store_max_bytes}}},
                {"self", of_self(status)},
                {"last_snapshot", status.last_snapshot}};
  if (status.last) add_last(object, *status.last);
  add_messages(object, status);
  return json::dump(object);
}

Result<Status> parse_status(std::string_view text) {
  const Value value = json::parse_or_null(text);
  if (!value.is_object()) return fail(std::errc::bad_message, "the status is not a JSON object");
  Status status;
  status.version = text_at(value, "version");
  status.uptime_seconds = number_at(value, "uptime_seconds");
  status.cpus = int_at(value, "cpus");
  status.paused = flag_at(value, "paused");
  status.recording = recording_at(value, status.paused);
  for (const Value& ring : value.at("rings").items())
    status.rings.push_back({text_at(ring, "channel"), int_at(ring, "cpu"), ring.at("ring_bytes").count_or_zero(),
                            number_at(ring, "history_seconds")});
  for (const Value& channel : value.at("channels").items()) status.channels.push_back(channel_of(channel));
  status.snapshots = value.at("snapshots").count_or_zero();
  status.store_bytes = value.at("store").at("bytes").count_or_zero();
  status.store_max_bytes = value.at("store").at("max_bytes").count_or_zero();
  const Value& self = value.at("self");
  status.flightd = process_of(self.at("flightd"));
  status.broker = process_of(self.at("broker"));
  status.staging_bytes = self.at("staging_bytes").count_or_zero();
  status.ring_bytes = self.at("ring_bytes").count_or_zero();
  status.tracker_bytes = self.at("tracker_bytes").count_or_zero();
  status.tracker_max_bytes = self.at("tracker_max_bytes").count_or_zero();
  status.build_ids_waiting = self.at("build_ids_waiting").count_or_zero();
  if (value.at("last_snapshot").text() != nullptr) status.last_snapshot = text_at(value, "last_snapshot");
  if (value.at("last_snapshot_timings_us").is_object()) status.last = last_of(value);
  read_messages(value, status);
  return status;
}

}  // namespace flight
