// SPDX-License-Identifier: Apache-2.0
#include "ctl/sidecar_text.hpp"

#include <algorithm>
#include <cmath>

#include "ctl/output.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kTopShown = 10;
constexpr std::size_t kHolesShown = 10;

std::string window_text(const SidecarWindow& window) {
  return fmt::format("{} .. {} ({:.1f} s)", local_time(window.begin), local_time(window.end), window.seconds);
}

std::string ratio_text(const Sidecar& sidecar) {
  if (sidecar.size_bytes == 0) return "-";
  return fmt::format("{:.1f} : 1", static_cast<double>(sidecar.raw_bytes) / static_cast<double>(sidecar.size_bytes));
}

std::string micros_text(double us) {
  return us < 1000 ? fmt::format("{:.1f} us", us) : fmt::format("{:.2f} ms", us / 1000);
}

std::string lost_text(const Sidecar& sidecar) {
  return fmt::format("{}{}", sidecar.blackout.lost_exact ? "" : "at least ", sidecar.blackout.lost);
}

// Works for a shell even where a host's name put something odd into the path.
std::string shell_word(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-';
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Lines summary_lines(const Sidecar& sidecar) {
  return {{"id", sidecar.id},
          {"path", sidecar.path},
          {"window", window_text(sidecar.window)},
          {"samples", std::to_string(sidecar.samples)},
          {"size", format_bytes(sidecar.size_bytes)},
          {"ratio", ratio_text(sidecar)},
          {"blackout", micros_text(sidecar.blackout.max_us)},
          {"lost", lost_text(sidecar)}};
}

std::string fired_text(const SidecarFired& fired) {
  return fmt::format("{} was {:.3g}, threshold {:.3g}, baseline {:.3g}", fired.metric, fired.value, fired.threshold,
                     fired.baseline);
}

Lines info_lines(const Sidecar& sidecar) {
  Lines lines = summary_lines(sidecar);
  lines.emplace_back("every ring covers", window_text(sidecar.common_window));
  lines.emplace_back("trigger", sidecar.trigger);
  if (sidecar.fired) lines.emplace_back("fired", fired_text(*sidecar.fired));
  if (!sidecar.reason.empty()) lines.emplace_back("reason", sidecar.reason);
  for (const SidecarRequest& request : sidecar.requests)
    lines.emplace_back("asked by",
                       fmt::format("{} (pid {}, uid {}) at {}{}{}", request.comm, request.pid, request.uid,
                                   local_time(request.time), request.reason.empty() ? "" : ": ", request.reason));
  lines.emplace_back("host", fmt::format("{}, Linux {}", sidecar.host, sidecar.kernel));
  lines.emplace_back(
      "capture", fmt::format("{}, compression {}, flightd {}", sidecar.capture, sidecar.compression, sidecar.version));
  lines.emplace_back("processes", fmt::format("{} running, {} more exited but remembered", sidecar.ledger.processes,
                                              sidecar.ledger.exited));
  const SidecarTimings& times = sidecar.timings_us;
  const auto us = [](std::uint64_t value) { return micros_text(static_cast<double>(value)); };
  lines.emplace_back(
      "took", fmt::format("{} (queued {}, freeze {}, walk {}, merge {}, write {})", us(times.total), us(times.queued),
                          us(times.freeze), us(times.walk), us(times.merge), us(times.write)));
  return lines;
}

std::string rings_text(const Sidecar& sidecar) {
  std::vector<std::vector<std::string>> rows{{"  CHANNEL", "CPU", "RING", "HISTORY", "SAMPLES", "BLACKOUT", "LOST"}};
  for (const SidecarRing& ring : sidecar.rings) {
    const std::uint64_t span_ns = ring.newest_ns > ring.oldest_ns ? ring.newest_ns - ring.oldest_ns : 0;
    rows.push_back({"  " + printable(ring.channel), std::to_string(ring.cpu), format_bytes(ring.ring_bytes),
                    fmt::format("{:.1f} s", static_cast<double>(span_ns) / 1e9), std::to_string(ring.samples),
                    micros_text(ring.blackout_us), std::to_string(ring.lost)});
  }
  return "\nrings:\n" + table(rows, {1, 2, 3, 4, 5, 6});
}

std::string top_text(const Sidecar& sidecar) {
  std::vector<std::vector<std::string>> rows{{"  SHARE", "SAMPLES", "PID", "COMM", "CGROUP"}};
  for (const SidecarTop& top : sidecar.top) {
    if (rows.size() > kTopShown) break;
    rows.push_back({fmt::format("  {:.1f}%", top.share * 100), std::to_string(top.samples), std::to_string(top.pid),
                    printable(top.comm), printable(top.cgroup)});
  }
  return "\ntop processes:\n" + table(rows, {0, 1, 2});
}

std::string holes_text(const Sidecar& sidecar) {
  std::string out = "\nholes (earlier snapshots' blackouts inside this one):\n";
  std::size_t shown = 0;
  for (const SidecarHole& hole : sidecar.holes) {
    if (++shown > kHolesShown) break;
    const double before_end_s = (static_cast<double>(sidecar.window.end_ns) - static_cast<double>(hole.begin_ns)) / 1e9;
    const double wide_us = (static_cast<double>(hole.end_ns) - static_cast<double>(hole.begin_ns)) / 1e3;
    out += fmt::format("  {} CPU {}: {} wide, {:.3f} s before the end, {} lost\n", printable(hole.channel), hole.cpu,
                       micros_text(std::max(wide_us, 0.0)), before_end_s, hole.lost);
  }
  if (sidecar.holes.size() > kHolesShown) out += fmt::format("  and {} more\n", sidecar.holes.size() - kHolesShown);
  return out;
}

std::string warnings_text(const Sidecar& sidecar) {
  std::vector<std::string> warnings = sidecar.warnings;
  if (sidecar.ledger.stale) warnings.emplace_back("the ledger of processes was stale: some names may be missing");
  if (sidecar.ledger.evicted > 0)
    warnings.push_back(fmt::format("{} processes had been forgotten for want of memory", sidecar.ledger.evicted));
  if (warnings.empty()) return "";
  std::string out = "\nwarnings:\n";
  for (const std::string& warning : warnings) out += fmt::format("  {}\n", printable(warning));
  return out;
}

}  // namespace

std::string summary_text(const Sidecar& sidecar) { return key_values(summary_lines(sidecar)) + warnings_text(sidecar); }

std::string info_text(const Sidecar& sidecar) {
  std::string out = key_values(info_lines(sidecar));
  if (!sidecar.rings.empty()) out += rings_text(sidecar);
  if (!sidecar.top.empty()) out += top_text(sidecar);
  if (!sidecar.holes.empty()) out += holes_text(sidecar);
  out += warnings_text(sidecar);
  return out + fmt::format("\nTo look into it: perf report -i {}\n", printable(shell_word(sidecar.path)));
}

}  // namespace flight::ctl
