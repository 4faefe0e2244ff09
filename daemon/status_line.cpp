// SPDX-License-Identifier: Apache-2.0
#include "daemon/status_line.hpp"

#include <algorithm>

#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxTroubleColumns = 300, kMaxTriggerColumns = 64;

std::string count(std::size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

// To the whole second: the line is told anew only where it reads otherwise.
std::string duration(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(std::max(time, std::chrono::nanoseconds(0)));
  return seconds.count() < 60 ? fmt::format("{} s", seconds.count()) : format_duration(seconds);
}

}  // namespace

std::string status_line(const StatusFacts& facts) {
  std::string out;
  if (facts.broker_gone) out += "flightd-broker is gone, looking for the next one; ";
  if (facts.paused) out += "PAUSED, nothing is recorded; ";
  if (!facts.trouble.empty()) out += cut_end(printable(facts.trouble), kMaxTroubleColumns) + "; ";
  out += fmt::format("{}{}, {}, {} held", facts.broker_gone || facts.paused ? "" : "recording ",
                     count(facts.cpus, "CPU"), count(facts.channels, "channel"), duration(facts.held));
  if (facts.last)
    out += fmt::format("; last snapshot {} ago ({})", duration(facts.last->ago),
                       cut_middle(printable(facts.last->trigger), kMaxTriggerColumns));
  else
    out += "; no snapshot yet";
  if (facts.store_max_bytes > 0)
    out += fmt::format("; store {} of {}", format_bytes(facts.store_bytes), format_bytes(facts.store_max_bytes));
  return out;
}

}  // namespace flight
