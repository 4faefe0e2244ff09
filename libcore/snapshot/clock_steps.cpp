// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/clock_steps.hpp"

#include <algorithm>
#include <string>

#include "libcore/base/units.hpp"

namespace flight {
namespace {

using std::chrono::nanoseconds;

// A flightd that starts with its broker knows the clock from the first records on.
constexpr EventTime kStartNs = 10'000'000'000;
// A change is known to the interval of two looks. It is mentioned if it was longer, because flightd did not run.
constexpr EventTime kLookedRarelyNs = 5'000'000'000;

nanoseconds distance(nanoseconds value) { return value < nanoseconds(0) ? -value : value; }

std::string step_text(const ClockStep& step) {
  const bool slept = step.slept > nanoseconds(0);
  const bool set = distance(step.after - step.before - step.slept) > ClockHistory::kMostMoved;
  return fmt::format(
      "{}{}: {} became {}{}",
      slept ? fmt::format("the machine was suspended for {}", format_duration(step.slept)) : "the wall clock was set",
      slept && set ? ", and its wall clock was set" : "", to_rfc3339(step.before), to_rfc3339(step.after),
      step.ns - step.looked_ns > kLookedRarelyNs
          ? fmt::format(" (within the {} before)", format_duration(nanoseconds(step.ns - step.looked_ns)))
          : "");
}

// How far off perf shows the records from before a change, where that is most.
nanoseconds largest_shift(const std::vector<ClockStep>& steps, const ClockHistory& clock, EventTime end_ns) {
  nanoseconds out{};
  const WallTime end = clock.wall_at(end_ns);
  for (const ClockStep& step : steps)
    if (const nanoseconds shift = end - nanoseconds(end_ns - step.ns) - step.before; distance(shift) > distance(out))
      out = shift;
  return out;
}

std::string warning_of(const std::vector<ClockStep>& steps, nanoseconds shift) {
  const bool once = steps.size() == 1;
  std::string out = once ? step_text(steps.back())
                         : fmt::format("the wall clock changed {} times in this window, at last {}", steps.size(),
                                       step_text(steps.back()));
  out += "; times here are as it showed them then";
  if (distance(shift) > ClockHistory::kMostMoved)
    out += fmt::format(", but `perf script -F +tod` shows what was recorded before {}{} too {}", once ? "" : "up to ",
                       format_duration(distance(shift)), shift > nanoseconds(0) ? "late" : "early");
  return out;
}

}  // namespace

void describe_clock(Sidecar& out, const ClockHistory& clock) {
  const SidecarWindow& window = out.window;
  const auto steps = clock.steps(window.begin_ns, window.end_ns);
  for (std::size_t i = steps.size() - std::min(steps.size(), kMaxListedSteps); i < steps.size(); ++i)
    out.clock_steps.push_back({steps[i].ns, to_rfc3339(steps[i].before), to_rfc3339(steps[i].after)});
  if (!steps.empty()) out.warnings.push_back(warning_of(steps, largest_shift(steps, clock, window.end_ns)));
  if (clock.known_from_ns() <= window.begin_ns + kStartNs) return;
  const std::string from = to_rfc3339(clock.wall_at(clock.known_from_ns()));
  if (clock.forgotten() > 0)
    out.warnings.push_back(
        fmt::format("{} of the wall clock before {} {} forgotten (limit reached): earlier times here can be off",
                    counted(clock.forgotten(), "change"), from, was_or_were(clock.forgotten())));
  else
    out.warnings.push_back(fmt::format(
        "there is no data of an earlier flightd about the wall clock: if it was set before {}, earlier times here are "
        "off",
        from));
}

}  // namespace flight
