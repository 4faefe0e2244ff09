// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/contributions.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "libcore/snapshot/recorded_cpus.hpp"

namespace flight {
namespace {

void add(RingSelection::Count& to, const RingSelection::Count& more) {
  to.samples += more.samples;
  to.sampled += more.sampled;
}

// Pid 0 is the idle tasks, or everything outside of flightd's PID namespace; -1 is all exiting tasks.
bool is_one_process(std::uint32_t pid) { return pid != 0 && pid != kKernelPid; }

// cpu-clock if it is the only sampling event, otherwise nullptr; also if it took the place of one with the same rate.
// Its timer has a constant rate, so a sample is a share of CPU time. For a hardware counter the kernel adjusts the
// period over busy and idle time (perf_adjust_period() in kernel/events/core.c), and 3 % of a CPU can be 90 % of the
// samples.
const ManifestEvent* only_clock(const Manifest& manifest) {
  const ManifestEvent* out = nullptr;
  const std::vector<bool> samples = events_that_sample(manifest);
  for (std::size_t i = 0; i < manifest.events.size(); ++i) {
    const ManifestEvent& event = manifest.events[i];
    if (!samples[i]) continue;
    const bool clock = event.attr.type == PERF_TYPE_SOFTWARE && event.attr.config == PERF_COUNT_SW_CPU_CLOCK &&
                       event.attr.exclude_user == 0 && event.attr.exclude_kernel == 0;
    if (!clock) return nullptr;
    if (out != nullptr && ((!out->closed && !event.closed) || out->attr.sample_freq != event.attr.sample_freq))
      return nullptr;
    if (out == nullptr || out->closed) out = &event;
  }
  return out;
}

// The cgroup of the process's newest sample that has one; 0: no sample has one.
std::uint64_t newest_cgroup(std::span<const Contribution> process) {
  std::uint64_t out = 0;
  EventTime newest_ns = 0;
  for (const Contribution& one : process) {
    if (one.cgroup == 0 || !is_one_process(one.pid) || one.tally->newest_ns < newest_ns) continue;
    out = one.cgroup;
    newest_ns = one.tally->newest_ns;
  }
  return out;
}

// Its rate in each ring of the manifest, by the newest of the events that wrote into it. 0: there is no such event.
std::vector<std::uint64_t> frequencies(const Manifest& manifest) {
  const ManifestEvent* clock = only_clock(manifest);
  std::vector<std::uint64_t> out(manifest.rings.size(), clock == nullptr ? 0 : clock->attr.sample_freq);
  if (clock == nullptr) return out;
  for (const ManifestId& id : clock->ids)
    out[id.ring] = id.below.frequency != 0 ? id.below.frequency : clock->attr.sample_freq;
  return out;
}

}  // namespace

Contributions::Contributions(const Selection& selection, const Manifest& manifest,
                             const std::vector<std::size_t>& channel_rings, Lives& lives)
    : compared_(selection.compared), pauses_(selection.pauses), in_cpus_(only_clock(manifest) != nullptr) {
  const std::vector<std::uint64_t> frequency = frequencies(manifest);
  for (std::uint32_t i = 0; i < selection.rings.size(); ++i) {
    const RingSelection& ring = selection.rings[i];
    const int cpu = manifest.rings[channel_rings[i]].cpu;
    worth_.push_back(worth_of(ring, cpu, frequency[channel_rings[i]]));
    bool any_several = false;
    for (const auto& [source, tally] : ring.tallies) {
      if (lives.has_several(source.pid))
        any_several = true;
      else
        all_.push_back({.pid = source.pid, .ring = i, .cgroup = source.cgroup, .tally = &tally});
    }
    if (any_several) add_lives(ring, i, lives);
  }
  for (const Contribution& one : all_) {
    by_sampled_ = by_sampled_ || one.tally->window.sampled > 0;
    add(window_, one.tally->window);
    add(before_, one.tally->before);
    add(now_, one.tally->now);
  }
  name(lives);
}

EventTime Contributions::recorded_between(EventTime begin_ns, EventTime end_ns) const {
  if (begin_ns >= end_ns) return 0;
  EventTime out = end_ns - begin_ns;
  for (const Pause& pause : pauses_) {
    const EventTime from_ns = std::max(pause.begin_ns, begin_ns), to_ns = std::min(pause.end_ns, end_ns);
    if (from_ns < to_ns) out -= to_ns - from_ns;
  }
  // A pause begins when it is asked for: a sample may come later, and would be worth many CPUs.
  constexpr EventTime kLeastPart = 20;
  return out >= (end_ns - begin_ns) / kLeastPart ? out : 0;
}

// A ring that covers only a part of the time counts for that part, and a pause counts for nothing. The time of a CPU
// that was offline does count: nothing ran on it.
Contributions::Worth Contributions::worth_of(const RingSelection& ring, int cpu, std::uint64_t frequency) const {
  const auto of = [&](EventTime begin_ns, EventTime end_ns) {
    const EventTime recorded_ns = recorded_between(std::max(begin_ns, ring.covers_from_ns), end_ns);
    if (frequency == 0 || recorded_ns == 0) return 0.0;
    return 1e9 / static_cast<double>(frequency) / static_cast<double>(recorded_ns);
  };
  return {.cpu = cpu,
          .before = of(compared_.before_begin_ns, compared_.now_begin_ns),
          .now = of(compared_.now_begin_ns, compared_.now_end_ns)};
}

// Assigns the samples of pids with several lives, one by one.
void Contributions::add_lives(const RingSelection& ring, std::uint32_t number, const Lives& lives) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, RingSelection::Tally*> tallies;  // by source and life
  std::vector<bool> several;                                                         // by source
  for (const RingSelection::Source& source : ring.sources) several.push_back(lives.has_several(source.pid));
  for (std::size_t i = ring.first; i < ring.last; ++i) {
    const RingSelection::Task& task = ring.task_of(i);
    if (!task.is_known() || !several[task.source()]) continue;
    const RingSelection::Source& source = ring.sources[task.source()];
    const EventTime time_ns = ring.walk.records[i].time_ns;
    const std::uint32_t life = lives.number_of(task.in_program(), source.pid, time_ns);
    RingSelection::Tally*& tally = tallies[{task.source(), life}];
    if (tally == nullptr) {
      tally = &own_.emplace_back();
      all_.push_back({.pid = source.pid, .life = life, .ring = number, .cgroup = source.cgroup, .tally = tally});
    }
    tally->add(compared_, time_ns, task.sampled());
  }
}

void Contributions::name(Lives& lives) {
  std::sort(all_.begin(), all_.end(), [](const Contribution& a, const Contribution& b) {
    return std::tie(a.pid, a.life, a.ring, a.cgroup) < std::tie(b.pid, b.life, b.ring, b.cgroup);
  });
  for (Contribution& one : all_)
    if (const Lives::Life* life = lives.find(one.pid, one.life))
      one.process = life->process, one.program = life->program;
  for (std::size_t i = 0, end = 0; i < all_.size(); i = end) {
    while (end < all_.size() && all_[end].pid == all_[i].pid && all_[end].process == all_[i].process) ++end;
    const auto process = std::span(all_).subspan(i, end - i);
    const std::uint64_t newest = newest_cgroup(process);
    for (Contribution& one : process) {
      if (one.cgroup == 0 || newest == 0) one.cgroup = newest;
      one.unit = is_one_process(one.pid) ? lives.unit_of(one.cgroup) : lives.unit_of_no_process(one.pid);
    }
  }
}

Share Contributions::sum(std::span<const Contribution> some) const {
  Share out;
  for (const Contribution& one : some) {
    const Worth& worth = worth_[one.ring];
    add(out.window, one.tally->window);
    add(out.before, one.tally->before);
    add(out.now, one.tally->now);
    out.cpus_before += static_cast<double>(one.tally->before.sampled) * worth.before;
    out.cpus_now += static_cast<double>(one.tally->now.sampled) * worth.now;
    if (one.tally->window.samples > 0) add(out.cpus[worth.cpu], one.tally->window);
  }
  return out;
}

}  // namespace flight
