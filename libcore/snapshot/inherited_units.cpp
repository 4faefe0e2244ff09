// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/inherited_units.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <tuple>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/gaps.hpp"

namespace flight {
namespace {

constexpr int kMostAncestors = 64;
constexpr std::string_view kManagersScope = "/init.scope";  // of systemd, for the system and for each user

}  // namespace

InheritedUnits::InheritedUnits(const TrackerExport& sideband, std::span<const Contribution> all, const UnitTimes& units,
                               Lives& lives)
    : sideband_(&sideband), units_(&units), lives_(&lives) {
  if (sideband.forks.empty()) return;
  read_log();
  read_units(all);
  for (const auto& [pid, cgroup] : sideband.forker_cgroups)
    if (!lives.is_sampled(pid)) forkers_[pid] = {.unit = lives.unit_of_path(cgroup.path), .since_ns = cgroup.since_ns};
  find_movers();
}

void InheritedUnits::read_log() {
  std::span<const std::byte> rest(sideband_->log);
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    const auto type = load<perf_event_header>(record.data()).type;
    if (type == PERF_RECORD_FORK) {
      const auto task = parse_task(record);
      if (task && task->pid == task->tid && task->pid != task->ppid) note_fork(task->pid, task->ppid, task->time_ns);
    } else if (type == PERF_RECORD_CGROUP) {
      if (const auto trailer = parse_trailer(record)) made_.push_back(trailer->time_ns);
    }
  }
  for (const TrackerExport::EarlyFork& fork : sideband_->early_forks)
    if (fork.pid != fork.parent) note_fork(fork.pid, fork.parent, fork.time_ns);
  std::sort(forks_.begin(), forks_.end(),
            [](const Fork& a, const Fork& b) { return std::tie(a.pid, a.time_ns) < std::tie(b.pid, b.time_ns); });
  std::sort(made_.begin(), made_.end());
}

void InheritedUnits::read_units(std::span<const Contribution> all) {
  for (const Contribution& one : all) {
    const Lives::Life* life = lives_->find(one.pid, one.process);
    sampled_.push_back({.pid = one.pid,
                        .process = one.process,
                        .unit = one.unit,
                        .begin_ns = life != nullptr ? life->begin_ns : 0,
                        .newest_ns = one.tally != nullptr ? one.tally->newest_ns : 0});
  }
  std::sort(sampled_.begin(), sampled_.end(), [](const Sampled& a, const Sampled& b) {
    return std::tie(a.pid, a.process, a.unit) < std::tie(b.pid, b.process, b.unit);
  });
  std::size_t kept = 0;
  for (const Sampled& one : sampled_) {
    Sampled* last = kept > 0 ? &sampled_[kept - 1] : nullptr;
    if (last == nullptr || last->pid != one.pid || last->process != one.process) {
      sampled_[kept++] = one;
      continue;
    }
    last->newest_ns = std::max(last->newest_ns, one.newest_ns);
    if (last->in_several || last->unit != one.unit) last->unit = Lives::kUnitUnknown, last->in_several = true;
  }
  sampled_.resize(kept);
}

void InheritedUnits::find_movers() {
  for (Sampled& one : sampled_) {
    if (one.begin_ns == 0) continue;
    const auto ancestor = ancestor_of(one.pid, one.begin_ns);
    const bool is_elsewhere =
        one.in_several || (one.unit != Lives::kUnitUnknown && ancestor && one.unit != ancestor->unit);
    if (ancestor && is_elsewhere) movers_.emplace(ancestor->pid, ancestor->process);
    one.is_moved = ancestor && one.in_several;
  }
  for (const auto& [pid, forker] : forkers_) {
    const auto ancestor = ancestor_of(pid, UINT64_MAX);
    if (ancestor && forker.unit != Lives::kUnitUnknown && forker.unit != ancestor->unit)
      movers_.emplace(ancestor->pid, ancestor->process);
  }
  // A copy that moves its children does what its shell does.
  for (const ForkCount& forks : sideband_->forks) {
    if (forks.pid == 0 || forks.shell == 0) continue;
    const Sampled* copy = sampled_at(forks.pid, forks.begin_ns).sampled;
    if (!movers_.contains({forks.pid, copy != nullptr ? copy->process : kNoSamples})) continue;
    const Sampled* shell = sampled_at(forks.shell, forks.begin_ns).sampled;
    movers_.emplace(forks.shell, shell != nullptr ? shell->process : kNoSamples);
  }
  doubt_their_children();
}

void InheritedUnits::doubt_their_children() {
  std::vector<Sampled*> children;
  for (Sampled& one : sampled_) {
    if (one.begin_ns == 0 || one.unit == Lives::kUnitUnknown) continue;
    const auto ancestor = ancestor_of(one.pid, one.begin_ns);
    if (ancestor && ancestor->unit == one.unit && movers_.contains({ancestor->pid, ancestor->process}))
      children.push_back(&one);
  }
  for (Sampled* one : children) one->certain_until_ns = one->newest_ns;
}

const InheritedUnits::Fork* InheritedUnits::fork_of(std::uint32_t pid, EventTime until_ns) const {
  const auto after = std::upper_bound(forks_.begin(), forks_.end(), std::pair(pid, until_ns),
                                      [](const std::pair<std::uint32_t, EventTime>& wanted, const Fork& fork) {
                                        return wanted < std::pair(fork.pid, fork.time_ns);
                                      });
  if (after == forks_.begin() || std::prev(after)->pid != pid) return nullptr;
  return &*std::prev(after);
}

const InheritedUnits::Sampled* InheritedUnits::sampled(std::uint32_t pid, std::uint32_t process) const {
  const auto found = std::lower_bound(sampled_.begin(), sampled_.end(), std::pair(pid, process),
                                      [](const Sampled& one, const std::pair<std::uint32_t, std::uint32_t>& wanted) {
                                        return std::pair(one.pid, one.process) < wanted;
                                      });
  return found != sampled_.end() && found->pid == pid && found->process == process ? &*found : nullptr;
}

InheritedUnits::Found InheritedUnits::sampled_at(std::uint32_t pid, EventTime time_ns) const {
  const Lives::Life* life = lives_->find(pid, lives_->number_at(pid, time_ns));
  if (life == nullptr) return {};
  if (life->begin_ns > time_ns) return {.is_other = true};
  return {.sampled = sampled(pid, life->process)};
}

std::optional<InheritedUnits::Ancestor> InheritedUnits::ancestor_of(std::uint32_t pid, EventTime time_ns) const {
  for (int i = 0; i < kMostAncestors; ++i) {
    const Fork* fork = fork_of(pid, time_ns);
    if (fork == nullptr) return std::nullopt;
    pid = fork->parent;
    time_ns = fork->time_ns;
    if (lives_->is_sampled(pid)) {
      const Sampled* found = sampled_at(pid, time_ns).sampled;
      if (found == nullptr || time_ns > found->certain_until_ns) return std::nullopt;
      const std::uint32_t unit =
          found->in_several ? units_->at(pid, found->process, time_ns, /*is_moved=*/true) : found->unit;
      if (unit == Lives::kUnitUnknown) return std::nullopt;
      return Ancestor{
          .pid = pid, .process = found->process, .unit = unit, .forked_ns = time_ns, .in_several = found->in_several};
    }
    const auto forker = forkers_.find(pid);
    if (forker == forkers_.end()) continue;
    if (time_ns < forker->second.since_ns || forker->second.unit == Lives::kUnitUnknown) return std::nullopt;
    return Ancestor{.pid = pid, .process = kNoSamples, .unit = forker->second.unit, .forked_ns = time_ns};
  }
  return std::nullopt;
}

bool InheritedUnits::passes_its_unit_on(const Ancestor& ancestor) const {
  return !ancestor.in_several && ancestor.unit != Lives::kNoUnit &&
         !lives_->unit(ancestor.unit).path.ends_with(kManagersScope) &&
         !movers_.contains({ancestor.pid, ancestor.process});
}

std::uint32_t InheritedUnits::at(std::uint32_t pid, EventTime time_ns) const {
  if (forks_.empty()) return Lives::kUnitUnknown;
  const auto ancestor = ancestor_of(pid, time_ns);
  if (!ancestor || !passes_its_unit_on(*ancestor)) return Lives::kUnitUnknown;
  const auto made = std::lower_bound(made_.begin(), made_.end(), ancestor->forked_ns);
  const bool may_be_moved =
      (made != made_.end() && *made <= time_ns) || sideband_->cgroup_made_ns >= ancestor->forked_ns;
  if (may_be_moved || has_gap(sideband_->gaps, ancestor->forked_ns, time_ns)) return Lives::kUnitUnknown;
  return ancestor->unit;
}

bool InheritedUnits::was_there(std::uint32_t pid, std::uint32_t process, EventTime time_ns) const {
  const Sampled* found = sampled(pid, process);
  return found == nullptr || time_ns <= found->certain_until_ns;
}

bool InheritedUnits::is_moved(std::uint32_t pid, std::uint32_t process) const {
  const Sampled* found = sampled(pid, process);
  return found != nullptr && found->is_moved;
}

bool InheritedUnits::keeps_its_copies(const Place& shell) const {
  if (movers_.contains({shell.pid, shell.process})) return false;
  return lives_ == nullptr || !lives_->unit(shell.unit).path.ends_with(kManagersScope);
}

bool InheritedUnits::is_subshell(std::uint32_t pid, const Place& shell, EventTime time_ns) const {
  if (!keeps_its_copies(shell)) return false;
  for (int i = 0; i < kMostAncestors; ++i) {
    const Fork* fork = fork_of(pid, time_ns);
    if (fork == nullptr) return false;
    pid = fork->parent;
    time_ns = fork->time_ns;
    if (pid == shell.pid) return true;
    const Found found = sampled_at(pid, time_ns);
    if (found.is_other) return false;
    if (found.sampled != nullptr) {
      const bool is_elsewhere = found.sampled->unit != shell.unit || time_ns > found.sampled->certain_until_ns;
      if (is_elsewhere || movers_.contains({pid, found.sampled->process})) return false;
    } else if (const auto forker = forkers_.find(pid); forker != forkers_.end()) {
      if (forker->second.unit != shell.unit || movers_.contains({pid, kNoSamples})) return false;
    }
  }
  return false;
}

}  // namespace flight
