// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/top.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <type_traits>

#include "libcore/base/units.hpp"
#include "libcore/snapshot/contributions.hpp"
#include "libcore/snapshot/forks.hpp"
#include "libcore/snapshot/inherited_units.hpp"
#include "libcore/snapshot/unit_times.hpp"
#include "libcore/store/headline.hpp"

namespace flight {
namespace {

using Part = std::span<const Contribution>;

// Contributions that form one row.
struct Row {
  Part part;
  std::uint64_t samples = 0, before = 0, now = 0;
};

// The first `most` by samples in the window, and half as many each by samples before and now: a new process has few
// samples in a long window, and an exited one has none at its end.
std::vector<Row> choose(std::vector<Row> rows, std::size_t most) {
  std::vector<bool> chosen(rows.size());
  std::vector<std::size_t> order(rows.size());
  const auto take = [&](std::size_t count, auto value) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    count = std::min(count, order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                      [&](std::size_t a, std::size_t b) {
                        return value(rows[a]) != value(rows[b]) ? value(rows[a]) > value(rows[b]) : a < b;
                      });
    for (std::size_t i = 0; i < count; ++i)
      if (value(rows[order[i]]) > 0) chosen[order[i]] = true;
  };
  take(most, [](const Row& row) { return row.samples; });
  take(most / 2, [](const Row& row) { return row.now; });
  take(most / 2, [](const Row& row) { return row.before; });
  std::vector<Row> out;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (chosen[i]) out.push_back(rows[i]);
  std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) { return a.samples > b.samples; });
  return out;
}

// Contributions with the same key are adjacent.
template <typename Key>
std::vector<Row> rows_by(const Contributions& all, Part sorted, const Key& key, std::size_t most) {
  std::vector<Row> rows;
  for (std::size_t i = 0, end = 0; i < sorted.size(); i = end) {
    Row row;
    for (; end < sorted.size() && key(sorted[end]) == key(sorted[i]); ++end) {
      row.samples += all.of(sorted[end].tally->window);
      row.before += all.of(sorted[end].tally->before);
      row.now += all.of(sorted[end].tally->now);
    }
    row.part = sorted.subspan(i, end - i);
    if (row.samples > 0) rows.push_back(row);
  }
  return choose(std::move(rows), most);
}

template <typename Key>
void sort_by(std::vector<Contribution>& all, const Key& key) {
  std::sort(all.begin(), all.end(), [&](const Contribution& a, const Contribution& b) {
    return std::tuple(key(a), a.pid, a.life, a.ring, a.cgroup) < std::tuple(key(b), b.pid, b.life, b.ring, b.cgroup);
  });
}

// Which rows can be compared with the time before. An exited process without records counts for no program. In that
// case it is unknown how much the other programs had.
struct BeforeKnown {
  bool programs = true, units = true;
  double nameless = 0;  // share of the samples before
};

BeforeKnown before_known(const Contributions& all, Part part, const Selection& selection, const TrackerExport& sideband,
                         const Lives& lives) {
  constexpr double kFew = 0.01;  // of the samples before: so few change no row visibly
  const EventTime begin_ns = selection.compared.before_begin_ns, end_ns = selection.compared.now_begin_ns;
  const bool lost = sideband.names_from_ns > begin_ns || has_gap(sideband.gaps, begin_ns, end_ns);
  const auto whole = static_cast<double>(all.of(all.all_before()));
  if (!lost || whole == 0) return {};
  std::uint64_t nameless = 0, placeless = 0;
  for (const Contribution& one : part) {
    if (one.pid == 0 || one.pid == kKernelPid) continue;  // they never have names
    const std::uint64_t samples = all.of(one.tally->before);
    const Lives::Life* life = lives.find(one.pid, one.life);
    if (life == nullptr || !lives.has_name(*life) || life->program == 0) nameless += samples;
    if (one.cgroup != 0 && lives.path_of(one.cgroup).empty()) placeless += samples;
  }
  const double share = static_cast<double>(nameless) / whole;
  return {.programs = share <= kFew, .units = static_cast<double>(placeless) <= kFew * whole, .nameless = share};
}

// `part`: adjacent by process. Empty: almost all executables are known. What has no name has a reason of its own.
std::string warn_of_programs(const Contributions& all, Part part, const Lives& lives) {
  constexpr double kFew = 0.01;  // of the samples
  std::uint64_t samples = 0, processes = 0;
  std::pair<std::uint32_t, std::uint32_t> last{0, 0};
  for (const Contribution& one : part) {
    if (one.pid == 0 || one.pid == kKernelPid || one.program != 0 || all.of(one.tally->window) == 0) continue;
    const Lives::Life* life = lives.find(one.pid, one.life);
    if (life == nullptr || !lives.has_name(*life)) continue;
    samples += all.of(one.tally->window);
    if (const std::pair process(one.pid, one.process); process != last) last = process, ++processes;
  }
  const double share = static_cast<double>(samples) / std::max(static_cast<double>(all.of(all.all_window())), 1.0);
  if (share < kFew) return {};
  return fmt::format(
      "programs: the executables of {} ({} of the samples) are unknown: no record says what they executed, and /proc "
      "did not show it: they ended too early, or flightd-broker may not read it",
      counted(processes, "process"), share_text(share));
}

void forget_before(std::vector<SidecarGroup>& rows) {
  for (SidecarGroup& row : rows) row.share_before = row.cpus_before = std::nullopt;
}

// Sets the common part of all kinds of rows.
template <typename To>
void fill(To& out, const Contributions& all, Part part) {
  const Share sum = all.sum(part);
  const auto share = [&](const RingSelection::Count& of, const RingSelection::Count& whole) -> std::optional<double> {
    if (all.of(whole) == 0) return std::nullopt;
    return static_cast<double>(all.of(of)) / static_cast<double>(all.of(whole));
  };
  out.samples = all.of(sum.window);
  out.share = share(sum.window, all.all_window()).value_or(0);
  out.share_before = share(sum.before, all.all_before());
  out.share_now = share(sum.now, all.all_now());
  if (all.cpus_before()) out.cpus_before = sum.cpus_before;
  if (all.cpus_now()) out.cpus_now = sum.cpus_now;
  // The CPUs on which it ran, without CPUs where it ran only for a moment.
  constexpr std::uint64_t kStray = 50;  // fewer than one in this many of its samples
  for (const auto& [cpu, count] : sum.cpus)
    if (all.of(count) > 0 && all.of(count) * kStray >= out.samples) out.cpus.push_back(cpu);
}

// The key with the most samples, and the number of keys.
template <typename Value>
struct Most {
  Value key{};
  std::size_t keys = 0;
};
template <typename Key>
auto most_of(const Contributions& all, Part part, const Key& key) {
  using Value = std::decay_t<decltype(key(part.front()))>;
  std::map<Value, std::uint64_t> samples;
  for (const Contribution& one : part) samples[key(one)] += all.of(one.tally->window);
  const auto first = std::max_element(samples.begin(), samples.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  return Most<Value>{.key = first->first, .keys = samples.size()};
}

// The unit with the most samples, and in how many units they are, as far as it is known.
struct Places {
  std::uint32_t unit = Lives::kUnitUnknown;
  std::size_t units = 0;
};
Places places_of(const Contributions& all, Part part) {
  const auto most = most_of(all, part, [](const Contribution& one) { return one.unit; });
  std::size_t others = 0;
  for (const std::uint32_t no : {Lives::kNoUnit, Lives::kUnitUnknown})
    if (std::any_of(part.begin(), part.end(), [no](const Contribution& one) { return one.unit == no; })) ++others;
  return {.unit = most.key, .units = most.keys - others};
}

// Whether the kernel samples cgroups and their paths are known: otherwise there are no units, and one row for what is
// unknown would be useless.
bool knows_units(Part part) {
  return std::any_of(part.begin(), part.end(), [](const Contribution& one) {
    return one.pid != 0 && one.pid != kKernelPid && one.unit != Lives::kUnitUnknown;
  });
}

// -1 is not a process: how many tasks had it is not known.
std::uint32_t shown_pid(std::uint32_t pid) { return pid != kKernelPid ? pid : 0; }

// Returns the part of the process with the most samples.
Part fill_processes(SidecarGroup& out, const Contributions& all, Part part) {
  std::uint64_t most = 0;
  Part busiest = part;
  for (std::size_t i = 0, end = 0; i < part.size(); i = end) {
    std::uint64_t samples = 0;
    for (; end < part.size() && part[end].pid == part[i].pid && part[end].process == part[i].process; ++end)
      samples += all.of(part[end].tally->window);
    if (samples > 0 && part[i].pid != kKernelPid) ++out.processes;
    if (samples <= most) continue;
    most = samples;
    busiest = part.subspan(i, end - i);
  }
  out.pid = shown_pid(busiest.front().pid);
  out.pid_share = static_cast<double>(most) / static_cast<double>(out.samples);
  return busiest;
}

// The newest name that the process had while it ran this program: after an exec it has another one.
void fill_comm(SidecarGroup& out, const Lives& lives, Part process, std::uint32_t program) {
  const auto last = std::find_if(process.rbegin(), process.rend(),
                                 [program](const Contribution& one) { return one.program == program; });
  const Contribution& one = last != process.rend() ? *last : process.back();
  const Lives::Life* life = lives.find(one.pid, one.life);
  if (life == nullptr) return;
  out.comm = lives.comm_text(one.pid, *life);
  out.named_by = lives.named_by(one.pid, *life);
}

void fill_unit(SidecarGroup& out, const CgroupName& unit) {
  out.unit = unit.unit;
  out.container = unit.container;
  out.cgroup = unit.path;
}

SidecarGroup unit_row(const Contributions& all, const Lives& lives, const RankedForks& forks, Part part) {
  SidecarGroup out;
  const CgroupName& unit = lives.unit(part.front().unit);
  fill(out, all, part);
  const Part busiest = fill_processes(out, all, part);
  fill_unit(out, unit);
  out.name = unit.label;
  const std::uint32_t program = most_of(all, part, [](const Contribution& one) { return one.program; }).key;
  fill_comm(out, lives, busiest, program);
  out.program = lives.program_text(program);
  out.path = lives.program_path(program);
  out.units = 1;
  if (const auto forked = forks.units.find(part.front().unit); forked != forks.units.end()) {
    out.forks_per_second = forked->second.per_second;
    out.forked_by = forked->second.program;
  }
  return out;
}

SidecarGroup program_row(const Contributions& all, const Lives& lives, bool with_units, Part part) {
  SidecarGroup out;
  const Places places = places_of(all, part);
  fill(out, all, part);
  fill_comm(out, lives, fill_processes(out, all, part), part.front().program);
  if (with_units && out.pid != 0) fill_unit(out, lives.unit(places.unit));
  out.name = out.program = lives.program_text(part.front().program);
  out.path = lives.program_path(part.front().program);
  out.units = places.units;
  return out;
}

SidecarTop process_row(const Contributions& all, const Lives& lives, bool with_units, Part part) {
  SidecarTop out;
  const std::uint32_t pid = part.front().pid;
  out.pid = shown_pid(pid);
  fill(out, all, part);
  if (const Lives::Life* life = lives.newest_of(pid, part.front().life)) {
    out.comm = lives.comm_text(pid, *life);
    out.named_by = lives.named_by(pid, *life);
  }
  const Places places = places_of(all, part);
  std::vector<Contribution> there;  // in the unit that is shown
  std::copy_if(part.begin(), part.end(), std::back_inserter(there),
               [&](const Contribution& one) { return one.unit == places.unit; });
  out.cgroup = lives.path_of(most_of(all, there, [](const Contribution& one) { return one.cgroup; }).key);
  out.unit = name_of_cgroup(out.cgroup).unit;
  if (with_units && out.pid != 0 && places.unit == Lives::kUnitUnknown) out.unit = kUnknownUnit;
  out.units = places.units;
  return out;
}

// A tenth of many forks is in no unit.
bool is_worth_a_word(const SidecarForks& forks) {
  constexpr std::uint64_t kMany = 100, kPart = 10;
  return forks.unit_unknown >= kMany / kPart && forks.all.count >= kMany &&
         forks.unit_unknown * kPart >= forks.all.count;
}

}  // namespace

Ranking rank(const Selection& selection, const Manifest& manifest, const std::vector<std::size_t>& channel_rings,
             const TrackerExport& sideband, bool own_pid_namespace, std::size_t most) {
  std::unordered_set<std::uint32_t> sampled;
  for (const RingSelection& ring : selection.rings)
    for (const auto& [source, tally] : ring.tallies) sampled.insert(source.pid);
  Lives lives(sideband, sampled, own_pid_namespace);
  Contributions all(selection, manifest, channel_rings, lives);
  std::unordered_set<std::uint32_t> forkers;
  for (const ForkCount& forks : sideband.forks) forkers.insert({forks.pid, forks.shell});
  const UnitTimes units(selection, all.all(), forkers, lives);
  const InheritedUnits inherited(sideband, all.all(), units, lives);
  RankedForks forks = rank_forks(selection, sideband, units, lives, inherited);
  Ranking out;
  const auto process = [](const Contribution& one) { return std::pair(one.pid, one.process); };
  const auto unit = [](const Contribution& one) { return one.unit; };
  const auto program = [](const Contribution& one) { return one.program; };
  const bool with_units = knows_units(all.all());
  for (const Row& row : rows_by(all, all.all(), process, most))  // already sorted by process
    out.processes.push_back(process_row(all, lives, with_units, row.part));
  const std::string unknown = warn_of_programs(all, all.all(), lives);
  sort_by(all.all(), unit);
  if (with_units)
    for (const Row& row : rows_by(all, all.all(), unit, most))
      out.units.push_back(unit_row(all, lives, forks, row.part));
  sort_by(all.all(), program);
  for (const Row& row : rows_by(all, all.all(), program, most))
    out.programs.push_back(program_row(all, lives, with_units, row.part));
  const BeforeKnown known = before_known(all, all.all(), selection, sideband, lives);
  if (!known.units) forget_before(out.units);
  if (!known.programs) {
    forget_before(out.programs);
    out.warnings.push_back(fmt::format(
        "names: {} of the samples before have no name any more: the shares of programs at that time are unknown",
        share_text(known.nameless)));
  } else if (!unknown.empty()) {
    out.warnings.push_back(unknown);
  }
  if (with_units && is_worth_a_word(forks.sidecar))
    out.warnings.push_back(fmt::format(
        "forks: {} of {} are of processes whose unit is not known: each unit has forked at least what is shown",
        forks.sidecar.unit_unknown, forks.sidecar.all.count));
  out.forks = std::move(forks.sidecar);
  return out;
}

}  // namespace flight
