// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/recording.hpp"

#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>

#include "libcore/recorder/channel_cpus.hpp"
#include "libcore/recorder/limits.hpp"
#include "libcore/recorder/recording_state.hpp"
#include "libcore/recorder/ring_memory.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight {

std::uint64_t trigger_ring_bytes() {
  constexpr std::uint64_t kBytes = 16U << 10U;
  return std::max<std::uint64_t>(kBytes, page_bytes());
}

Result<void> Recording::State::open_sideband(const std::vector<int>& cpus, std::uint64_t ring_bytes) {
  for (const int cpu : cpus) {
    auto ring = open_sideband_ring(features, cpu, ring_bytes);
    if (!ring && ring.error().errno_value() == ENODEV) continue;  // it went offline meanwhile
    if (!ring) return propagate(ring.error());
    sideband.push_back(std::move(*ring));
  }
  if (sideband.empty()) return fail(std::errc::no_such_device, "no CPU can be recorded");
  return {};
}

std::vector<int> Recording::State::cpus() const {
  std::vector<int> list;
  for (const OpenRing& ring : sideband)
    if (ring.info.online) list.push_back(ring.info.cpu);
  return list;
}

Recording::Recording(std::unique_ptr<State> state) : state_(std::move(state)) {}
Recording::Recording(Recording&&) noexcept = default;
Recording& Recording::operator=(Recording&&) noexcept = default;
Recording::~Recording() = default;

Result<Recording> Recording::open(const Config& config, const EventSources& sources, const KernelFeatures& features,
                                  const std::function<void(const Manifest&)>& before_samples) {
  auto cpus = online_cpus();
  if (!cpus) return propagate(cpus.error());
  if (cpus->empty()) return fail(std::errc::no_such_device, "sysfs lists no online CPU");
  auto plan = plan_recording(config, sources, features, cpus->size(), *cpus);
  if (!plan) return propagate(plan.error());
  fit_descriptors(*plan, cpus->size());
  if (auto few = check_ring_count(*plan, cpus->size()); !few) return propagate(few.error());

  auto state = std::make_unique<State>();
  state->features = features;
  state->boot_id = HostInfo::read().boot_id;
  const std::size_t fd_count = fds_needed(*plan, cpus->size());
  if (auto opened = state->open_sideband(*cpus, plan->sideband_ring_bytes); !opened)
    return explain_limit(opened.error(), fd_count);
  for (const ChannelPlan& channel : plan->channels) {
    auto opened = OpenChannel::open(channel, features, state->cpus());
    if (!opened) return explain_limit(opened.error(), fd_count);
    state->channels.push_back(std::move(*opened));
  }
  for (const TriggerPlan& trigger : plan->triggers) {
    auto opened = OpenTrigger::open(trigger, features, state->cpus());
    if (!opened) return explain_limit(opened.error(), fd_count);
    state->triggers.push_back(std::move(*opened));
  }
  state->plan = std::move(*plan);
  state->config_digest = config.digest;
  Recording recording(std::move(state));
  if (before_samples) {
    recording.state_->describe(0);
    // What is forked while it looks at the processes must not be missed.
    for (OpenRing& ring : recording.state_->sideband)
      if (auto on = ring.enable(); !on) return propagate(on.error());
    before_samples(recording.manifest());
  }
  if (auto on = recording.enable_all(true); !on) return propagate(on.error());
  recording.state_->describe(1);
  return recording;
}

Result<Recording::Checked> Recording::check(const Config& config, const EventSources& sources) {
  auto cpus = online_cpus();
  if (!cpus) return propagate(cpus.error());
  if (cpus->empty()) return fail(std::errc::no_such_device, "sysfs lists no online CPU");
  const int first = cpus->front();
  const KernelFeatures features = KernelFeatures::probe(first);
  auto plan = plan_recording(config, sources, features, cpus->size(), *cpus);
  if (!plan) return propagate(plan.error());
  Checked out{.warnings = std::move(plan->warnings), .notes = std::move(plan->notes)};
  for (ChannelPlan& channel : plan->channels) {
    channel.ring_bytes = kLeastRingBytes;
    std::vector<int> its_cpus = those_recorded(channel.cpus, *cpus);
    its_cpus.resize(std::min<std::size_t>(its_cpus.size(), 1));  // none: all of them are offline
    if (auto opened = OpenChannel::open(channel, features, its_cpus); !opened) return propagate(opened.error());
    out.notes.insert(out.notes.end(), channel.notes.begin(), channel.notes.end());
    for (const EventPlan& event : channel.events) add_replaced_text(channel, event, out.warnings, out.notes);
    if (std::string note = left_out_note(channel); !note.empty()) out.notes.push_back(std::move(note));
  }
  for (const TriggerPlan& trigger : plan->triggers)
    if (auto opened = OpenTrigger::open(trigger, features, {first}); !opened) return propagate(opened.error());
  return out;
}

Delivery Recording::delivery() const { return state_->delivery; }

const Manifest& Recording::manifest() const { return state_->manifest; }

std::vector<int> Recording::owner_fds() const {
  std::vector<int> fds;
  state_->for_each_ring([&](const OpenRing& ring) { fds.push_back(ring.owner_fd()); });
  return fds;
}

std::vector<std::pair<std::uint64_t, std::span<const std::byte>>> Recording::sideband_rings() const {
  std::vector<std::pair<std::uint64_t, std::span<const std::byte>>> rings;
  for (const OpenRing& ring : state_->sideband) rings.emplace_back(ring.info.owner_id, ring.mapping.bytes());
  return rings;
}

std::map<std::uint64_t, int> Recording::events() const {
  std::map<std::uint64_t, int> fds;
  state_->for_each_ring([&](const OpenRing& ring) {
    fds[ring.info.owner_id] = ring.owner_fd();
    for (const OpenEvent& event : ring.events) fds[event.id] = event.fd.get();
  });
  return fds;
}

void Recording::warn(std::string warning) {
  auto& notes = state_->notes;
  if (std::find(notes.begin(), notes.end(), warning) != notes.end()) return;
  notes.push_back(std::move(warning));
  state_->describe(state_->manifest.generation);
}

void Recording::unwarn(const std::string& warning) {
  if (std::erase(state_->notes, warning) != 0) state_->describe(state_->manifest.generation);
}

Counts Recording::counts() const {
  Counts counts;
  counts.time_ns = monotonic_now();
  counts.delivery = state_->delivery;
  counts.unseen = state_->unseen;
  state_->for_each_ring([&](const OpenRing& ring) {
    for (const OpenEvent& event : ring.events)
      if (auto count = event.count()) counts.events.push_back(*count);
  });
  return counts;
}

void Recording::resume_all() const {
  state_->for_each_ring([](const OpenRing& ring) { ::ioctl(ring.owner_fd(), PERF_EVENT_IOC_PAUSE_OUTPUT, 0); });
}

Result<void> Recording::enable_all(bool on) const {
  Result<void> first;
  // The sideband first, so that the process of a sample is known.
  state_->for_each_ring([&](OpenRing& ring) {
    auto done = on ? ring.enable() : ring.disable();
    if (!done && first) first = std::move(done);
  });
  state_->on = on;
  for (auto& [id, watched] : state_->deliveries) watched.delivery.interrupt();
  // A ring that a reload opened while recording was off is enabled only now.
  std::size_t index = 0;
  state_->for_each_ring([&](const OpenRing& ring) {
    if (index < state_->manifest.rings.size()) state_->manifest.rings[index++].enabled_ns = ring.info.enabled_ns;
  });
  return first;
}

}  // namespace flight
