// SPDX-License-Identifier: Apache-2.0
// Follows CPU hotplug. The events of a CPU that goes offline die; a suspend does the same without a uevent and without
// a change of the online CPUs. The rings stay: new events write into the same ring, redirected to its dead owner.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "libcore/recorder/recording_state.hpp"

namespace flight {
namespace {

// A live event's running time advances between two reads this far apart. Each read interrupts its CPU.
constexpr std::chrono::milliseconds kProbeTime(2);

bool contains(const std::vector<int>& list, int cpu) { return std::find(list.begin(), list.end(), cpu) != list.end(); }

bool has_ring(const std::vector<OpenRing>& rings, int cpu) {
  return std::any_of(rings.begin(), rings.end(), [&](const OpenRing& ring) { return ring.info.cpu == cpu; });
}

}  // namespace

// All events of a CPU die together, so checking its sideband is enough.
std::vector<int> Recording::State::dead_cpus() {
  std::vector<std::uint64_t> before;
  for (const OpenRing& ring : sideband) before.push_back(ring.info.online ? ring.events.front().running_ns() : 0);
  std::this_thread::sleep_for(kProbeTime);
  std::vector<int> dead;
  for (std::size_t i = 0; i < sideband.size(); ++i)
    if (sideband[i].info.online && sideband[i].events.front().running_ns() == before[i])
      dead.push_back(sideband[i].info.cpu);
  return dead;
}

void Recording::State::retire(const std::vector<int>& cpus, EventTime good_ns) {
  for_each_ring([&](OpenRing& ring) {
    if (!ring.info.online || !contains(cpus, ring.info.cpu)) return;
    ring.retire();
    if (ring.info.kind != RingKind::sideband) return;
    if (gaps.size() == kMaxGaps) gaps.erase(gaps.begin());
    gaps.push_back({.cpu = ring.info.cpu, .begin_ns = good_ns, .end_ns = 0});
  });
}

// True if a ring is recorded again, or other events are.
bool Recording::State::revive(const std::vector<int>& online) {
  bool revived = false;
  const auto take = [&](OpenRing& ring, Result<void> reopened) {
    if (reopened && on) reopened = ring.enable();
    if (reopened) {
      revived = true;
      if (ring.info.kind != RingKind::sideband) return;
      for (ManifestGap& gap : gaps)
        if (gap.cpu == ring.info.cpu && gap.end_ns == 0) gap.end_ns = monotonic_now();
      return;
    }
    if (ring.info.online) ring.retire();
    // Offline again: the next check reports it.
    if (reopened.error().errno_value() != ENODEV)
      cpu_errors.push_back(fmt::format("CPU {} is not recorded: {}", ring.info.cpu, reopened.error().what));
  };
  const auto due = [&](const OpenRing& ring) { return !ring.info.online && contains(online, ring.info.cpu); };
  // The sideband first, so that the process of a sample is known.
  for (OpenRing& ring : sideband)
    if (due(ring)) take(ring, reopen_sideband(ring, features));
  for (OpenChannel& channel : channels)
    for (OpenRing& ring : channel.rings)
      if (due(ring)) {
        auto reopened = reopen_channel(ring, channel.plan);
        if (!reopened && replace_refused(channel, ring.info.cpu)) {
          revived = true;
          reopened = reopen_channel(ring, channel.plan);
        }
        take(ring, std::move(reopened));
      }
  for (OpenTrigger& trigger : triggers)
    for (OpenRing& ring : trigger.rings)
      if (due(ring)) take(ring, reopen_trigger(ring, trigger.plan));
  return revived;
}

// Opens rings for CPUs that are online for the first time; true if there were any, or other events are recorded. What
// cannot be opened does not stop the rest.
bool Recording::State::open_missing(const std::vector<int>& online) {
  bool opened = false;
  const auto add = [&](std::vector<OpenRing>& rings, int cpu, const auto& open) {
    if (has_ring(rings, cpu)) return;
    Result<OpenRing> ring = open();
    if (ring && on)
      if (auto enabled = ring->enable(); !enabled) ring = Result<OpenRing>(propagate(enabled.error()));
    if (ring) {
      rings.push_back(std::move(*ring));
      opened = true;
    } else if (ring.error().errno_value() != ENODEV) {
      cpu_errors.push_back(fmt::format("CPU {} is not recorded: {}", cpu, ring.error().what));
    }
  };
  for (const int cpu : online) {
    add(sideband, cpu, [&] { return open_sideband_ring(features, cpu, plan.sideband_ring_bytes); });
    if (!has_ring(sideband, cpu)) continue;
    for (OpenChannel& channel : channels) {
      if (!channel.plan.config.records_on(cpu)) continue;
      add(channel.rings, cpu, [&] {
        auto ring = open_channel_ring(channel.plan, features, cpu);
        if (ring || !replace_refused(channel, cpu)) return ring;
        opened = true;
        return open_channel_ring(channel.plan, features, cpu);
      });
    }
    for (OpenTrigger& trigger : triggers)
      if (trigger.plan.off.empty())
        add(trigger.rings, cpu, [&] { return open_trigger_ring(trigger.plan, features, cpu); });
  }
  return opened;
}

bool Recording::follow_cpus(const std::vector<int>& online, Probe probe, EventTime good_ns) {
  State& state = *state_;
  std::vector<int> gone;
  for (const int cpu : state.cpus())
    if (!contains(online, cpu)) gone.push_back(cpu);
  if (probe != Probe::none && state.on) {
    const std::vector<int> dead = state.dead_cpus();
    gone.insert(gone.end(), dead.begin(), dead.end());
  }
  // Disabled events never count, whether dead or not; reopening them loses nothing.
  if (probe == Probe::suspected && !state.on) gone = state.cpus();
  const std::vector<std::string> old_errors = std::exchange(state.cpu_errors, {});
  state.retire(gone, good_ns);
  const bool revived = state.revive(online);
  const bool opened = state.open_missing(online);
  const bool changed = !gone.empty() || revived || opened || state.cpu_errors != old_errors;
  if (changed) state.describe(state.manifest.generation + 1);
  return changed;
}

}  // namespace flight
