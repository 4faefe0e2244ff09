// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify/status_line.hpp"

#include <algorithm>

#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

constexpr std::size_t kMaxTroubleColumns = 300, kMaxTriggerColumns = 64;

// Rounded to whole seconds: the line is sent only when its text changes.
std::string duration(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(std::max(time, std::chrono::nanoseconds(0)));
  return seconds.count() < 60 ? fmt::format("{} s", seconds.count()) : format_duration(seconds);
}

std::string held(const StatusFacts& facts) {
  const std::string channel = printable_cut(facts.shortest, kMaxTriggerColumns);
  return duration(facts.held) + " held" + (channel.empty() ? "" : fmt::format(" (channel {})", channel));
}

}  // namespace

std::string status_line(const StatusFacts& facts) {
  std::string out;
  if (!facts.refusal.empty())
    out += "recording: no (" + cut_end(printable(facts.refusal), kMaxTroubleColumns) + "); ";
  else if (facts.broker_gone)
    out += "flightd-broker is gone, looking for its successor; ";
  if (facts.paused) out += "PAUSED, nothing is recorded; ";
  if (!facts.trouble.empty()) out += cut_end(printable(facts.trouble), kMaxTroubleColumns) + "; ";
  if (facts.cpus > 0 || facts.refusal.empty())
    out += fmt::format("{}{}, {}, {}", facts.broker_gone || facts.paused ? "" : "recording ",
                       counted(facts.cpus, "CPU"), counted(facts.channels, "channel"), held(facts)) +
           "; ";
  if (facts.last)
    out += fmt::format("last snapshot {} ago ({})", duration(facts.last->ago),
                       printable_cut(facts.last->trigger, kMaxTriggerColumns));
  else
    out += "no snapshot yet";
  if (facts.store_max_bytes > 0)
    out += fmt::format("; store {} of {}", format_bytes(facts.store_bytes), format_bytes(facts.store_max_bytes));
  return out;
}

}  // namespace flight::daemon
