// SPDX-License-Identifier: Apache-2.0
#include "ctl/status_text.hpp"

#include <algorithm>

#include "ctl/output.hpp"
#include "ctl/sidecar_text.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

constexpr double kRatesSeconds = 10;  // flightd's rates cover at least this time, once it has run that long

std::string seconds_text(double seconds) {
  // More than 30 years is not plausible, and a cast of a larger number would be undefined.
  const double bounded = std::clamp(seconds, 0.0, 1e9);
  return format_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(bounded * 1e9)));
}

std::string events_per_second(double per_second) {
  return per_second < 100 ? fmt::format("{:.1f}", per_second) : fmt::format("{:.0f}", per_second);
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(std::clamp(bytes, 0.0, 1e18))); }

std::string channels_text(const Status& status, const Screen& screen) {
  std::vector<std::vector<std::string>> rows{{"CHANNEL", "EVENT", "PER SECOND", "BYTES/S", "SHORTEST", "LONGEST"}};
  for (const StatusChannel& channel : status.channels) {
    const std::string least = seconds_text(channel.history_min_seconds);
    const std::string most = seconds_text(channel.history_max_seconds);
    bool first = true;
    for (const StatusEvent& event : channel.events) {
      rows.push_back({first ? channel.name : "", event.event, events_per_second(event.per_second),
                      bytes_text(event.bytes_per_second), first ? least : "", first ? most : ""});
      first = false;
    }
    if (channel.events.empty()) rows.push_back({channel.name, "-", "", "", least, most});
  }
  std::string note = "The history of the shortest and of the longest ring of each channel.";
  if (status.uptime_seconds < kRatesSeconds)
    note += fmt::format(" Rates cover only {}.", seconds_text(status.uptime_seconds));
  std::string out = screen.table(std::move(rows), {2, 3, 4, 5}, {1, 0}) + screen.wrapped(note, 0);
  for (const StatusChannel& channel : status.channels)
    if (!channel.cpus.empty())
      out += screen.wrapped(fmt::format("Channel {} records only the CPUs {}.", channel.name, channel.cpus), 0);
  return out;
}

// How far back all channels reach together: as far as the shortest ring.
std::string held_text(const Status& status) {
  const StatusChannel* shortest = nullptr;
  for (const StatusChannel& channel : status.channels)
    if (channel.history_max_seconds > 0 &&
        (shortest == nullptr || channel.history_min_seconds < shortest->history_min_seconds))
      shortest = &channel;
  if (shortest == nullptr) return "";
  return fmt::format(", {} held{}", seconds_text(shortest->history_min_seconds),
                     status.channels.size() > 1 ? fmt::format(" (channel {})", shortest->name) : "");
}

// A rate shows that records were written. The broker looks for samples every 2 s only, and if there are events that
// must occur on a busy CPU, only for theirs.
bool any_rate(const Status& status) {
  return std::any_of(status.channels.begin(), status.channels.end(), [](const StatusChannel& channel) {
    return std::any_of(channel.events.begin(), channel.events.end(),
                       [](const StatusEvent& event) { return event.per_second > 0; });
  });
}

std::string recording_text(const Status& status) {
  const std::string cpus = counted(static_cast<std::uint64_t>(std::max(status.cpus, 0)), "CPU");
  switch (status.recording) {
    case RecordingState::on:
      return "recording " + cpus;
    case RecordingState::unproven:
      return "recording " + cpus + (any_rate(status) ? " (sampling unproven so far)" : " (no sample yet)");
    case RecordingState::silent:
      return "NO SAMPLES COME from " + cpus;
    case RecordingState::paused:
      return "NOT RECORDING (paused), " + cpus;
    case RecordingState::off:
      break;
  }
  return status.cpus > 0 ? "NOT RECORDING, " + cpus : "NOT RECORDING";
}

std::string process_text(const StatusProcess& process) {
  if (process.pid <= 0) return "unknown";
  std::string text = fmt::format("pid {}, {:.2f} s of CPU", process.pid, std::clamp(process.cpu_seconds, 0.0, 1e12));
  if (process.uptime_seconds >= 1)
    text += fmt::format(" ({:.2f} % of one)", std::clamp(process.cpu_seconds / process.uptime_seconds * 100, 0.0, 1e9));
  return text + fmt::format(", {} resident", format_bytes(process.rss_bytes));
}

std::string memory_text(const Status& status) {
  std::string text =
      fmt::format("rings {}, staging {}", format_bytes(status.ring_bytes), format_bytes(status.staging_bytes));
  if (status.tracker_max_bytes == 0) return text;  // of flightd 0.1
  return text + fmt::format(", processes {} of {}", format_bytes(status.tracker_bytes),
                            format_bytes(status.tracker_max_bytes));
}

std::string last_text(const Status& status, WallTime now) {
  if (!status.last_snapshot) return "none yet";
  std::string out = *status.last_snapshot;
  if (!status.last) return out;
  const StatusLast& last = *status.last;
  std::optional<double> age = last.age_seconds;
  if (const auto time = parse_time(last.time, now); !age && time)
    age = std::chrono::duration<double>(now - *time).count();
  if (age && *age >= 0) out += fmt::format(", {} ago", seconds_text(*age));
  const auto us = [](std::uint64_t value) { return micros_text(static_cast<double>(value)); };
  return out + fmt::format(" ({}); took {}: queued {}, freeze {}, walk {}, merge {}, write {}", last.trigger,
                           us(last.total_us), us(last.queued_us), us(last.freeze_us), us(last.walk_us),
                           us(last.merge_us), us(last.write_us));
}

}  // namespace

std::string status_text(const Status& status, WallTime now, const Screen& screen) {
  std::string out =
      screen.wrapped(fmt::format("flightd {}: {}{}, up {}", screen.cut(status.version, 24), recording_text(status),
                                 held_text(status), seconds_text(status.uptime_seconds)),
                     0);
  if (!status.channels.empty()) out += "\n" + channels_text(status, screen);
  out +=
      "\n" +
      screen.facts({{"store", fmt::format("{} snapshot{}, {} of {}", status.snapshots, status.snapshots == 1 ? "" : "s",
                                          format_bytes(status.store_bytes), format_bytes(status.store_max_bytes))},
                    {"last snapshot", last_text(status, now)},
                    {"memory", memory_text(status)},
                    {"flightd", process_text(status.flightd)},
                    {"broker", process_text(status.broker)}});
  for (const auto& [title, texts] :
       {std::pair("errors", &status.errors), {"warnings", &status.warnings}, {"notes", &status.notes}}) {
    if (!texts->empty()) out += fmt::format("\n{}:\n", title);
    for (const std::string& text : *texts) out += screen.wrapped(text, 2);
  }
  return out;
}

}  // namespace flight::ctl
