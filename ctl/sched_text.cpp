// SPDX-License-Identifier: Apache-2.0
#include "ctl/sched_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "ctl/output.hpp"
#include "ctl/sparkline.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/headline.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kInsteadShown = 5, kMostLaneCells = 76;
constexpr std::uint64_t kMostLaneSteps = 20'000;

std::string total_text(const SchedSpans& spans) { return (spans.unsure > 0 ? "~" : "") + ns_text(spans.total_ns); }

std::string longest_text(const SchedSpans& spans) {
  return ns_text(spans.longest_ns) + (spans.longest_goes_on ? "+" : "");
}

std::string when_text(const SchedSpans& spans, const ClockHistory& clock) {
  return spans.count == 0 ? "-" : moment_text(clock, spans.longest_begin_ns);
}

std::string waits_table(const SchedProfile& profile, const ClockHistory& clock, const Screen& screen) {
  std::vector<std::vector<std::string>> rows{{"  THREAD", "RUN", "WAIT", "LONGEST", "AT", "D", "SLEEP"}};
  for (const SchedRow& row : profile.rows) {
    const SchedThread& thread = profile.threads[row.thread];
    rows.push_back({"  " + thread_text(profile, row.thread), ns_text(thread.run.total_ns), total_text(thread.waited),
                    longest_text(thread.waited), when_text(thread.waited, clock), ns_text(thread.blocked.total_ns),
                    ns_text(thread.slept.total_ns)});
  }
  return screen.table(std::move(rows), {1, 2, 3, 4, 5, 6}, {0});
}

std::string instead_part(const SchedProfile& profile, const Screen& screen) {
  std::string out;
  std::size_t shown = 0;
  for (const SchedRow& row : profile.rows) {
    if (row.instead.empty() || shown == kInsteadShown) continue;
    std::string text = thread_text(profile, row.thread) + ": ";
    for (const SchedInstead& one : row.instead)
      text += fmt::format("{}{} {}", &one == &row.instead.front() ? "" : ", ", thread_text(profile, one.thread),
                          ns_text(one.ns));
    out += (shown++ == 0 ? "\nwho ran on their CPUs instead:\n" : "") + screen.wrapped(text, 2);
  }
  return out;
}

std::string blocked_part(const SchedProfile& profile, const ClockHistory& clock, const Screen& screen) {
  if (profile.blocked.empty()) return "\nno thread was in state D\n";
  std::vector<std::vector<std::string>> rows{{"  THREAD", "D", "TIMES", "LONGEST", "AT"}};
  for (const std::uint32_t number : profile.blocked) {
    const SchedThread& thread = profile.threads[number];
    rows.push_back({"  " + thread_text(profile, number), total_text(thread.blocked),
                    std::to_string(thread.blocked.count), longest_text(thread.blocked),
                    when_text(thread.blocked, clock)});
  }
  std::string out = "\nblocked (state D):\n" + screen.table(std::move(rows), {1, 2, 3, 4}, {0});
  if (profile.more_blocked > 0) out += fmt::format("  and {} more\n", profile.more_blocked);
  return out;
}

// The metric in the time that is shown, one value each step; empty: it is not known.
std::vector<double> metric_between(const SidecarSeries& series, std::string_view name, const SchedStretch& shown) {
  const auto found =
      std::find_if(series.values.begin(), series.values.end(), [name](const auto& one) { return one.first == name; });
  if (found == series.values.end() || series.step_ns == 0) return {};
  const std::uint64_t steps = (shown.end_ns - shown.begin_ns) / series.step_ns + 1;
  if (steps > kMostLaneSteps) return {};
  std::vector<double> out;
  for (std::uint64_t i = 0; i < steps; ++i) {
    const EventTime at_ns = shown.begin_ns + i * series.step_ns;
    const std::uint64_t place = at_ns < series.begin_ns ? UINT64_MAX : (at_ns - series.begin_ns) / series.step_ns;
    out.push_back(place < found->second.size() ? found->second[static_cast<std::size_t>(place)]
                                               : std::numeric_limits<double>::quiet_NaN());
  }
  return std::any_of(out.begin(), out.end(), [](double value) { return std::isfinite(value); }) ? out
                                                                                                : std::vector<double>();
}

std::string lane_text(const std::string& what, const std::vector<double>& values, double full, const Screen& screen) {
  const std::size_t cells = std::min(kMostLaneCells, screen.width() - 4);
  const Sparkline line = sparkline(values, cells, full, screen.utf8());
  return line.cells == 0 ? "" : screen.wrapped(what, 2) + "  " + line.bars + "\n";
}

std::string lanes_part(const Sidecar& sidecar, const SchedProfile& profile, const Screen& screen) {
  constexpr double kPercent = 100;
  if (profile.blocked_lane.empty()) return "";
  const double most = *std::max_element(profile.blocked_lane.begin(), profile.blocked_lane.end());
  std::string out = "\nover this time:\n";
  out += lane_text(fmt::format("threads in state D, at most {:.1f} at once", most), profile.blocked_lane, 1, screen);
  if (!sidecar.metrics) return out;
  const SidecarMetrics& metrics = *sidecar.metrics;
  const bool recent = profile.shown.begin_ns >= metrics.recent.begin_ns;
  for (const std::string_view name : {"psi.io.some", "psi.memory.some", "psi.cpu.some", "tasks.blocked"}) {
    const auto values = metric_between(recent ? metrics.recent : metrics.minutes, name, profile.shown);
    if (values.empty()) continue;
    const Sparkline range = sparkline(values, 1, 0, false);
    out += lane_text(fmt::format("{}, {} .. {}", name, metric_text(name, range.least), metric_text(name, range.most)),
                     values, name.starts_with("psi.") ? kPercent : 1, screen);
  }
  return out;
}

std::string sums_text(const SchedProfile& profile) {
  std::uint64_t run = 0, waited = 0, blocked = 0;
  for (const SchedThread& thread : profile.threads) {
    run += thread.run.total_ns;
    waited += thread.waited.total_ns;
    blocked += thread.blocked.total_ns;
  }
  return fmt::format("{}: they ran {}, waited {} for a CPU, and were {} in state D.",
                     counted(profile.threads.size(), "thread"), ns_text(run), ns_text(waited), ns_text(blocked));
}

bool any_goes_on(const SchedProfile& profile) {
  const auto goes_on = [&](std::uint32_t number) {
    return profile.threads[number].waited.longest_goes_on || profile.threads[number].blocked.longest_goes_on;
  };
  return std::any_of(profile.blocked.begin(), profile.blocked.end(), goes_on) ||
         std::any_of(profile.rows.begin(), profile.rows.end(),
                     [&](const SchedRow& row) { return goes_on(row.thread); });
}

}  // namespace

std::string moment_text(const ClockHistory& clock, EventTime time_ns) {
  if (clock.triples().empty()) return "?";
  const WallTime wall = clock.wall_at(time_ns);
  const std::string whole = local_time(wall);
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(wall).count() % 1000;
  return fmt::format("{}.{:03}", whole.size() > 11 ? whole.substr(11) : whole, ms < 0 ? ms + 1000 : ms);
}

std::string thread_text(const SchedProfile& profile, std::uint32_t number) {
  const SchedThread& thread = profile.threads[number];
  const std::string name = printable(profile.name_of(number));
  if (thread.pid == 0 || thread.pid == thread.tid) return fmt::format("{}[{}]", name, thread.tid);
  return fmt::format("{}[{}/{}]", name, thread.tid, thread.pid);
}

std::string ns_text(std::uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns == 0) return "-";
  if (value < 1e6) return fmt::format("{:.0f} us", std::max(value / 1e3, 1.0));
  if (value < 1e9) return fmt::format("{:.1f} ms", value / 1e6);
  return value < 1e11 ? fmt::format("{:.2f} s", value / 1e9) : fmt::format("{:.0f} s", value / 1e9);
}

std::string sched_text(const Sidecar& sidecar, const SchedProfile& profile, const std::vector<std::string>& notes,
                       const Screen& screen, std::size_t most_cpus) {
  const ClockHistory clock = clock_of(sidecar);
  std::string out =
      screen.wrapped(fmt::format("Snapshot {}, scheduling: the {} up to {}, {}. {}", printable(sidecar.id),
                                 ns_text(profile.shown.end_ns - profile.shown.begin_ns),
                                 local_time(clock.wall_at(profile.shown.end_ns)),
                                 counted(profile.switches, "switch record"), sums_text(profile)),
                     0);
  out += "\nthreads by their wait for a CPU:\n" + waits_table(profile, clock, screen);
  if (profile.rows.size() < profile.threads.size())
    out += screen.wrapped(fmt::format("{} not shown; -n selects how many are",
                                      counted(profile.threads.size() - profile.rows.size(), "thread")),
                          2);
  out += instead_part(profile, screen);
  out += blocked_part(profile, clock, screen);
  out += lanes_part(sidecar, profile, screen);
  out += cpu_lanes_text(profile, clock, screen, most_cpus);
  if (any_goes_on(profile)) out += "\n" + screen.wrapped("+: it goes on at the end", 0);
  if (!notes.empty()) out += "\nnot known:\n";
  for (const std::string& note : notes) out += screen.wrapped(note, 2);
  return out;
}

}  // namespace flight::ctl
