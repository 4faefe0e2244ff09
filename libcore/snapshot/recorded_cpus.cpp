// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/recorded_cpus.hpp"

#include <algorithm>
#include <iterator>

#include "libcore/recorder/plan.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

bool measures_cpu_time(const ManifestEvent& event) { return event.attr.freq != 0 && counts_while_busy(event.attr); }

// Whether `more` records all CPUs of `less`, and others.
bool records_more(const Manifest& manifest, const std::string& more, const std::string& less) {
  const auto all = recorded_cpus(manifest, more), part = recorded_cpus(manifest, less);
  if (all.empty() || part.empty()) return all.empty() && !part.empty();
  return all.size() > part.size() && std::includes(all.begin(), all.end(), part.begin(), part.end());
}

// The channels whose samples the rows of `top` count: the sampling events; without any, all events.
std::vector<std::string> counted_channels(const Manifest& manifest) {
  const std::vector<bool> samples = events_that_sample(manifest);
  std::vector<std::string> all, sampling, of_cpu_time;
  for (std::size_t i = 0; i < manifest.events.size(); ++i) {
    const ManifestEvent& event = manifest.events[i];
    if (event.channel.empty()) continue;
    all.push_back(event.channel);
    if (samples[i]) sampling.push_back(event.channel);
    if (samples[i] && measures_cpu_time(event)) of_cpu_time.push_back(event.channel);
  }
  if (!of_cpu_time.empty()) return of_cpu_time;
  return sampling.empty() ? all : sampling;
}

// Empty: all CPUs.
std::vector<int> counted_cpus(const Manifest& manifest) {
  std::vector<int> out;
  for (const std::string& channel : counted_channels(manifest)) {
    const auto cpus = recorded_cpus(manifest, channel);
    if (cpus.empty()) return {};
    std::vector<int> sum;
    std::set_union(out.begin(), out.end(), cpus.begin(), cpus.end(), std::back_inserter(sum));
    out = std::move(sum);
  }
  return out;
}

}  // namespace

std::vector<bool> events_that_sample(const Manifest& manifest) {
  std::vector<bool> out;
  for (const ManifestEvent& event : manifest.events)
    out.push_back(event.attr.freq != 0 &&
                  std::none_of(manifest.events.begin(), manifest.events.end(), [&](const ManifestEvent& other) {
                    return measures_cpu_time(other) && records_more(manifest, other.channel, event.channel);
                  }));
  return out;
}

void describe_cpus(const Manifest& manifest, Sidecar& sidecar) {
  for (const ManifestChannel& channel : manifest.channels)
    if (!channel.recorded.empty()) sidecar.channel_cpus.push_back({channel.name, format_cpu_list(channel.recorded)});
  sidecar.top_cpus = format_cpu_list(counted_cpus(manifest));
}

}  // namespace flight
