// SPDX-License-Identifier: Apache-2.0
// flightctl status: what flightd is doing now, on one screen.
#include <algorithm>

#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

std::string seconds_text(double seconds) {
  // Beyond 30 years a reply is nonsense; a cast of such a number would be undefined.
  const double bounded = std::clamp(seconds, 0.0, 1e9);
  return format_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(bounded * 1e9)));
}

std::string rate_text(double per_second) {
  return per_second < 100 ? fmt::format("{:.1f}", per_second) : fmt::format("{:.0f}", per_second);
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(std::clamp(bytes, 0.0, 1e18))); }

std::string history_text(const StatusChannel& channel) {
  const std::string least = seconds_text(channel.history_min_seconds);
  const std::string most = seconds_text(channel.history_max_seconds);
  return least == most ? least : fmt::format("{} .. {}", least, most);
}

std::string channels_text(const Status& status) {
  std::vector<std::vector<std::string>> rows{{"CHANNEL", "EVENT", "PER SECOND", "BYTES/S", "HISTORY"}};
  for (const StatusChannel& channel : status.channels) {
    bool first = true;
    for (const StatusEvent& event : channel.events) {
      rows.push_back({first ? printable(channel.name) : "", printable(event.event), rate_text(event.per_second),
                      bytes_text(event.bytes_per_second), first ? history_text(channel) : ""});
      first = false;
    }
    if (channel.events.empty()) rows.push_back({printable(channel.name), "-", "", "", history_text(channel)});
  }
  return table(rows, {2, 3});
}

std::string process_text(const StatusProcess& process, double uptime_seconds) {
  std::string text = fmt::format("pid {}, {:.2f} s of CPU", process.pid, process.cpu_seconds);
  if (uptime_seconds >= 1) text += fmt::format(" ({:.2f} % of one)", process.cpu_seconds / uptime_seconds * 100);
  return text + fmt::format(", {} resident", format_bytes(process.rss_bytes));
}

std::string screen(const Status& status) {
  std::string out = fmt::format("flightd {}: {} {} CPU{}, up {}\n\n", printable(status.version),
                                status.recording ? "recording" : "NOT RECORDING on", status.cpus,
                                status.cpus == 1 ? "" : "s", seconds_text(status.uptime_seconds));
  if (!status.channels.empty()) out += channels_text(status) + "\n";
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back("store", fmt::format("{} snapshot{}, {} of {}", status.snapshots, status.snapshots == 1 ? "" : "s",
                                          format_bytes(status.store_bytes), format_bytes(status.store_max_bytes)));
  lines.emplace_back("last snapshot", status.last_snapshot.value_or("none since flightd started"));
  lines.emplace_back("memory", fmt::format("rings {}, staging {}", format_bytes(status.ring_bytes),
                                           format_bytes(status.staging_bytes)));
  lines.emplace_back("flightd", process_text(status.flightd, status.uptime_seconds));
  lines.emplace_back("broker", process_text(status.broker, status.uptime_seconds));
  out += key_values(lines);
  if (!status.warnings.empty()) out += "\nwarnings:\n";
  for (const std::string& warning : status.warnings) out += fmt::format("  {}\n", printable(warning));
  return out;
}

}  // namespace

int run_status(const Common& common) {
  const auto text = ask(common, "GetStatus", "{}", "status");
  if (!text) return complain(common, text.error());
  if (common.json) return print(stdout, indented(*text));
  const auto status = parse_status(*text);
  if (!status) return complain(common, kBadReply, status.error().what, kRefused);
  return print(stdout, screen(*status));
}

}  // namespace flight::ctl
