// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/top.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace flight {
namespace {

constexpr std::size_t kScratchBytes = 65536;

// One process that had a pid; its newest name.
struct Life {
  EventTime begin_ns = 0;
  std::string comm;
};
struct Names {
  std::unordered_map<std::uint32_t, std::vector<Life>> lives;  // by pid, oldest first
  std::unordered_map<std::uint64_t, std::string> cgroups;      // by id

  // Of the process that had `pid` at `time_ns`.
  [[nodiscard]] std::size_t life_at(std::uint32_t pid, EventTime time_ns) const {
    const std::vector<Life>& all = lives.at(pid);
    const auto after = std::upper_bound(all.begin(), all.end(), time_ns,
                                        [](EventTime time, const Life& life) { return time < life.begin_ns; });
    return after == all.begin() ? 0 : static_cast<std::size_t>(after - all.begin()) - 1;
  }
  [[nodiscard]] bool taken_again(std::uint32_t pid) const {
    const auto found = lives.find(pid);
    return found != lives.end() && found->second.size() > 1;
  }
};

void note(Names& names, std::span<const std::byte> record, bool in_window) {
  if (const auto comm = parse_comm(record); comm && comm->pid == comm->tid) {
    std::vector<Life>& lives = names.lives[comm->pid];
    if (lives.empty()) lives.emplace_back();
    lives.back().comm = comm->name;
  } else if (const auto cgroup = parse_cgroup(record)) {
    names.cgroups[cgroup->id] = cgroup->path;
  } else if (const auto task = parse_task(record);
             task && in_window && task->pid == task->tid && load<std::uint32_t>(record.data()) == PERF_RECORD_FORK) {
    const auto parent = names.lives.find(task->ppid);
    std::string inherited = parent != names.lives.end() ? parent->second.back().comm : "";
    names.lives[task->pid].push_back({task->time_ns, std::move(inherited)});
  }
}

Names names_of(const LedgerExport& sideband) {
  Names out;
  for (const auto* records : {&sideband.prologue, &sideband.log}) {
    std::span<const std::byte> rest(*records);
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      note(out, record, records == &sideband.log);
      rest = rest.subspan(record.size());
    }
  }
  return out;
}

struct Sum {
  std::uint64_t samples = 0, sampled = 0, cgroup = 0;
  std::set<int> cpus, sampled_cpus;

  void add(const RingSelection::Tally& tally, int cpu) {
    samples += tally.samples;
    sampled += tally.sampled;
    if (tally.cgroup != 0) cgroup = tally.cgroup;
    if (tally.samples > 0) cpus.insert(cpu);
    if (tally.sampled > 0) sampled_cpus.insert(cpu);
  }
};
using Sums = std::map<std::pair<std::uint32_t, std::size_t>, Sum>;  // by pid and life

// The pids that were taken again, sample by sample.
void add_lives(const RingSelection& ring, int cpu, const EventTable& events, const std::vector<bool>& samples_cpu,
               const Names& names, Sums& sums) {
  std::array<std::byte, kScratchBytes> scratch{};
  for (std::size_t i = ring.first; i < ring.last; ++i) {
    const RecordRef& ref = ring.walk.records[i];
    if (ref.type != PERF_RECORD_SAMPLE) continue;
    const auto record = record_bytes(ring.image, ref, scratch);
    const auto key = record_key(record, events);
    const auto fields = key ? sample_fields(record, events.layout(key->event)) : std::nullopt;
    if (!fields || !names.taken_again(fields->pid)) continue;
    sums[{fields->pid, names.life_at(fields->pid, ref.time_ns)}].add(
        {.samples = 1, .sampled = samples_cpu[key->event] ? 1U : 0U, .cgroup = fields->cgroup}, cpu);
  }
}

SidecarTop row_of(std::uint32_t pid, std::size_t life, const Sum& sum, bool by_sampled, const Names& names) {
  SidecarTop out;
  out.pid = pid;
  out.samples = by_sampled ? sum.sampled : sum.samples;
  const std::set<int>& cpus = by_sampled ? sum.sampled_cpus : sum.cpus;
  out.cpus.assign(cpus.begin(), cpus.end());
  if (const auto lives = names.lives.find(pid); lives != names.lives.end()) out.comm = lives->second[life].comm;
  if (out.comm.empty()) out.comm = pid == 0 ? "swapper" : fmt::format(":{}", pid);
  if (const auto path = names.cgroups.find(sum.cgroup); path != names.cgroups.end()) out.cgroup = path->second;
  return out;
}

}  // namespace

std::vector<SidecarTop> top_processes(const Selection& selection, const Manifest& manifest,
                                      const std::vector<std::size_t>& channel_rings, const EventTable& events,
                                      const LedgerExport& sideband, std::size_t most) {
  const Names names = names_of(sideband);
  const std::vector<bool> samples_cpu = events_that_sample(manifest);
  Sums sums;
  for (std::size_t i = 0; i < selection.rings.size(); ++i) {
    const RingSelection& ring = selection.rings[i];
    const int cpu = manifest.rings[channel_rings[i]].cpu;
    bool any_again = false;
    for (const auto& [pid, tally] : ring.tallies) {
      if (names.taken_again(pid)) {
        any_again = true;
      } else {
        sums[{pid, 0}].add(tally, cpu);
      }
    }
    if (any_again) add_lives(ring, cpu, events, samples_cpu, names, sums);
  }

  std::uint64_t all = 0, all_sampled = 0;
  for (const auto& [key, sum] : sums) {
    all += sum.samples;
    all_sampled += sum.sampled;
  }
  const bool by_sampled = all_sampled > 0;
  std::vector<SidecarTop> out;
  for (const auto& [key, sum] : sums) {
    if ((by_sampled ? sum.sampled : sum.samples) == 0) continue;
    SidecarTop& row = out.emplace_back(row_of(key.first, key.second, sum, by_sampled, names));
    row.share = static_cast<double>(row.samples) / static_cast<double>(by_sampled ? all_sampled : all);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const SidecarTop& a, const SidecarTop& b) { return a.samples > b.samples; });
  if (out.size() > most) out.resize(most);
  return out;
}

}  // namespace flight
