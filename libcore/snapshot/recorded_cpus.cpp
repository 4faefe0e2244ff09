// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/recorded_cpus.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "libcore/recorder/plan.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

// Stands for the CPUs that neither a ring nor a list names.
constexpr int kOtherCpus = -1;

bool measures_cpu_time(const ManifestEvent& event) { return event.attr.freq != 0 && counts_while_busy(event.attr); }

// kOtherCpus and the CPUs that the manifest names, ascending.
std::vector<int> all_cpus(const Manifest& manifest) {
  std::set<int> out{kOtherCpus};
  for (const ManifestRing& ring : manifest.rings) out.insert(ring.cpu);
  for (const ManifestChannel& channel : manifest.channels) out.insert(channel.recorded.begin(), channel.recorded.end());
  return {out.begin(), out.end()};
}

// By event: those of all_cpus() on which it records.
std::vector<std::vector<int>> cpus_of_events(const Manifest& manifest) {
  const std::vector<int> all = all_cpus(manifest);
  std::vector<std::vector<int>> out;
  for (const ManifestEvent& event : manifest.events) {
    const auto listed = recorded_cpus(manifest, event.channel);
    std::vector<int>& cpus = out.emplace_back();
    std::copy_if(all.begin(), all.end(), std::back_inserter(cpus), [&](int cpu) {
      return (listed.empty() || std::binary_search(listed.begin(), listed.end(), cpu)) &&
             std::find(event.left_out.begin(), event.left_out.end(), cpu) == event.left_out.end();
    });
  }
  return out;
}

// Two events record different CPUs: which of them counts on the CPUs that both record. The one with more CPUs comes
// first; with equally many, the one whose list sorts first, so that it is the same one on all CPUs.
bool comes_first(const std::vector<int>& cpus, const std::vector<int>& others) {
  const auto named = [](const std::vector<int>& some) {
    return static_cast<std::size_t>(std::count_if(some.begin(), some.end(), [](int cpu) { return cpu != kOtherCpus; }));
  };
  const std::size_t ours = named(cpus), theirs = named(others);
  if (ours != theirs) return ours > theirs;
  if (cpus.size() != others.size()) return cpus.size() > others.size();
  return cpus < others;
}

// Whether both can write samples of the same time: one that is closed no longer records, and in its own channel it is
// an earlier form of the others.
bool is_beside(const ManifestEvent& other, const ManifestEvent& event) {
  return !other.closed && (!event.closed || other.channel != event.channel);
}

// Closed, and another event of the channel samples now.
bool has_successor(const Manifest& manifest, const ManifestEvent& event) {
  return event.closed && std::any_of(manifest.events.begin(), manifest.events.end(), [&](const ManifestEvent& other) {
           return !other.closed && other.channel == event.channel && other.attr.freq != 0;
         });
}

// The events whose samples the rows of `top` count: the sampling ones; without any, all.
std::vector<std::size_t> counted_events(const Manifest& manifest) {
  const std::vector<bool> samples = events_that_sample(manifest);
  std::vector<std::size_t> all, sampling, of_cpu_time;
  for (std::size_t i = 0; i < manifest.events.size(); ++i) {
    const ManifestEvent& event = manifest.events[i];
    if (event.channel.empty() || has_successor(manifest, event)) continue;
    all.push_back(i);
    if (samples[i]) sampling.push_back(i);
    if (samples[i] && measures_cpu_time(event)) of_cpu_time.push_back(i);
  }
  if (!of_cpu_time.empty()) return of_cpu_time;
  return sampling.empty() ? all : sampling;
}

// Empty: all CPUs.
std::vector<int> counted_cpus(const Manifest& manifest) {
  const std::vector<std::vector<int>> cpus = cpus_of_events(manifest);
  std::set<int> sum;
  for (const std::size_t event : counted_events(manifest)) sum.insert(cpus[event].begin(), cpus[event].end());
  if (sum.size() == all_cpus(manifest).size()) return {};
  sum.erase(kOtherCpus);
  return {sum.begin(), sum.end()};
}

}  // namespace

SamplingEvents::SamplingEvents(const Manifest& manifest) : anywhere_(manifest.events.size()) {
  const std::vector<ManifestEvent>& events = manifest.events;
  const std::vector<std::vector<int>> cpus = cpus_of_events(manifest);
  for (const int cpu : all_cpus(manifest)) by_cpu_[cpu].resize(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].attr.freq == 0) continue;
    std::set<int> counted(cpus[i].begin(), cpus[i].end());
    for (std::size_t other = 0; other < events.size(); ++other)
      if (measures_cpu_time(events[other]) && is_beside(events[other], events[i]) && comes_first(cpus[other], cpus[i]))
        for (const int cpu : cpus[other]) counted.erase(cpu);
    for (const int cpu : counted) by_cpu_[cpu][i] = true;
    anywhere_[i] = !counted.empty();
  }
}

const std::vector<bool>& SamplingEvents::on(int cpu) const {
  const auto at = by_cpu_.find(cpu);
  return at == by_cpu_.end() ? by_cpu_.at(kOtherCpus) : at->second;
}

void describe_cpus(const Manifest& manifest, Sidecar& sidecar) {
  for (const ManifestChannel& channel : manifest.channels)
    if (!channel.recorded.empty()) sidecar.channel_cpus.push_back({channel.name, format_cpu_list(channel.recorded)});
  sidecar.top_cpus = format_cpu_list(counted_cpus(manifest));
}

}  // namespace flight
