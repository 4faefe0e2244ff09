// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/forks.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "libcore/snapshot/who_forked.hpp"

namespace flight {
namespace {

constexpr std::size_t kForkersNamed = 5;

struct Stretch {
  EventTime begin_ns = 0, end_ns = 0;

  [[nodiscard]] double seconds() const { return end_ns > begin_ns ? static_cast<double>(end_ns - begin_ns) / 1e9 : 0; }
  // How many of `forks` are in the stretch: the forks of a slice are assumed to be evenly spread.
  [[nodiscard]] double part_of(const ForkCount& forks) const {
    const auto count = static_cast<double>(forks.count);
    if (forks.begin_ns == forks.end_ns) return forks.begin_ns >= begin_ns && forks.begin_ns <= end_ns ? count : 0;
    const EventTime from = std::max(begin_ns, forks.begin_ns), to = std::min(end_ns, forks.end_ns);
    if (from >= to) return 0;
    return count * static_cast<double>(to - from) / static_cast<double>(forks.end_ns - forks.begin_ns);
  }
};

struct Sum {
  double window = 0, before = 0, now = 0;
  void add(const Sum& more) { window += more.window, before += more.before, now += more.now; }
};

struct Stretches {
  Stretch window, before, now;
  bool before_is_whole = true, now_is_there = true;  // in "before" all forks were counted; in "now" some were

  Stretches(const Selection& selection, const TrackerExport& sideband)
      : window{selection.begin_ns, selection.end_ns},
        before{selection.compared.before_begin_ns, selection.compared.now_begin_ns},
        now{selection.compared.now_begin_ns, selection.compared.now_end_ns} {
    if (before.end_ns > before.begin_ns) --before.end_ns;  // a fork at its end belongs to "now"
    before_is_whole = is_whole(before, sideband);
    now_is_there = sideband.forks_from_ns < now.end_ns;
  }
  [[nodiscard]] static bool is_whole(const Stretch& stretch, const TrackerExport& sideband) {
    return sideband.forks_from_ns <= stretch.begin_ns && !has_gap(sideband.gaps, stretch.begin_ns, stretch.end_ns);
  }
  [[nodiscard]] Sum of(const ForkCount& forks) const {
    return {window.part_of(forks), before.part_of(forks), now.part_of(forks)};
  }
  void fill(SidecarForker& out, const Sum& sum) const {
    const auto rate = [](double count, const Stretch& stretch) -> std::optional<double> {
      if (stretch.seconds() == 0) return std::nullopt;
      return count / stretch.seconds();
    };
    out.count = static_cast<std::uint64_t>(std::llround(sum.window));
    out.per_second = rate(sum.window, window).value_or(0);
    if (before_is_whole) out.per_second_before = rate(sum.before, before);
    if (now_is_there) out.per_second_now = rate(sum.now, now);
  }
};

using Process = std::tuple<std::uint32_t, Comm, std::uint32_t, NamedBy>;  // pid, comm, Life::process

template <typename Key>
using ByUnit = std::map<std::pair<Key, std::uint32_t>, Sum>;

struct Sums {
  ByUnit<std::uint32_t> programs;
  ByUnit<Process> processes;
};

// The forks in all units.
struct Total {
  Sum sum;
  std::pair<double, std::uint32_t> busiest;  // the unit with the most of them
};
template <typename Key>
std::map<Key, Total> totals(const ByUnit<Key>& by_unit) {
  std::map<Key, Total> out;
  for (const auto& [key, sum] : by_unit) {
    Total& total = out[key.first];
    total.sum.add(sum);
    total.busiest = std::max(total.busiest, {sum.window, key.second});
  }
  return out;
}

SidecarForker forker_row(std::string name, std::uint32_t pid, std::uint32_t unit, const Lives& lives) {
  SidecarForker out{.name = std::move(name), .pid = pid};
  out.unit = lives.unit(unit).label;
  out.cgroup = lives.unit(unit).path;
  return out;
}

Sums sums_of(const Stretches& stretches, const TrackerExport& sideband, const WhoForked& who, Lives& lives, Sum& all) {
  Sums out;
  for (const ForkCount& forks : sideband.forks) {
    const Sum sum = stretches.of(forks);
    if (sum.window == 0) continue;
    all.add(sum);
    const ForkedBy by = who.made(forks, lives);
    out.programs[{by.program, by.unit}].add(sum);
    const NamedBy named_by = is_lost_comm(by.comm) ? NamedBy::flightd : by.kernel ? NamedBy::kernel : NamedBy::process;
    if (by.pid != 0) out.processes[{{by.pid, by.comm, by.process, named_by}, by.unit}].add(sum);
  }
  return out;
}

void cut(std::vector<SidecarForker>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const SidecarForker& a, const SidecarForker& b) { return a.count > b.count; });
  if (rows.size() > kForkersNamed) rows.resize(kForkersNamed);
}

}  // namespace

RankedForks rank_forks(const Selection& selection, const TrackerExport& sideband, const UnitTimes& unit_times,
                       Lives& lives, const InheritedUnits& inherited) {
  const Stretches stretches(selection, sideband);
  RankedForks ranked;
  SidecarForks& out = ranked.sidecar;
  out.complete = Stretches::is_whole(stretches.window, sideband);
  Sum all;
  const Sums sums = sums_of(stretches, sideband, WhoForked(sideband, unit_times, inherited), lives, all);
  stretches.fill(out.all, all);

  std::map<std::uint32_t, Sum> units;
  std::map<std::uint32_t, std::pair<double, std::uint32_t>> loudest;  // the program that forked most in a unit
  for (const auto& [key, sum] : sums.programs) {
    units[key.second].add(sum);
    auto& most = loudest[key.second];
    most = std::max(most, {sum.window, key.first});
  }
  for (const auto& [unit, sum] : units) {
    SidecarForker& row = out.by_unit.emplace_back(forker_row("", 0, unit, lives));
    row.name = row.unit;
    stretches.fill(row, sum);
    if (unit == Lives::kUnitUnknown) out.unit_unknown = row.count;
    ranked.units[unit] = {.per_second = row.per_second_now.value_or(row.per_second),
                          .program = lives.program_text(loudest[unit].second)};
  }
  for (const auto& [program, total] : totals(sums.programs))
    stretches.fill(out.by_program.emplace_back(forker_row(lives.program_text(program), 0, total.busiest.second, lives)),
                   total.sum);
  for (const auto& [process, total] : totals(sums.processes)) {
    const auto& [pid, comm, life, named_by] = process;
    SidecarForker& row =
        out.by_pid.emplace_back(forker_row(std::string(name_of(comm)), pid, total.busiest.second, lives));
    row.named_by = named_by;
    stretches.fill(row, total.sum);
  }
  for (auto* rows : {&out.by_unit, &out.by_program, &out.by_pid}) cut(*rows);
  return ranked;
}

}  // namespace flight
