// SPDX-License-Identifier: Apache-2.0
// The events of a broker that died, in the hands of the next one. They went on recording as long as somebody held their
// descriptors; their rings' memory is there as long as somebody mapped it. Which is which is in the manifest that the
// dead broker left behind, and nothing is believed that the events themselves do not confirm.
#include <linux/perf_event.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "libcore/perf/attr.hpp"
#include "libcore/recorder/recording_state.hpp"
#include "libcore/recorder/ring_memory.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight {
namespace {

// A broker looks after its CPUs at least as often; one that died with its CPU did so after the last look.
constexpr EventTime kLookedWithinNs = 30'000'000'000;

bool same_attr(const perf_event_attr& a, const perf_event_attr& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

Result<UniqueFd> take(KeptEvents& events, std::uint64_t id, int cpu) {
  const auto at = events.find(id);
  if (at == events.end()) return fail(std::errc::no_such_device, "the event {} of CPU {} was not kept", id, cpu);
  UniqueFd fd = std::move(at->second);
  events.erase(at);
  return fd;
}

// The manifest's events of a channel, in its order.
std::vector<const ManifestEvent*> events_of(const Manifest& kept, const std::string& channel) {
  std::vector<const ManifestEvent*> out;
  for (const ManifestEvent& event : kept.events)
    if (event.channel == channel && !event.closed) out.push_back(&event);
  return out;
}

// `attrs`: of its events, in their order; `events`: in the manifest, none of a trigger's.
Result<OpenRing> take_ring(const Manifest& kept, std::uint32_t index, const std::vector<perf_event_attr>& attrs,
                           const std::vector<const ManifestEvent*>& events, KeptEvents& fds) {
  const ManifestRing& info = kept.rings[index];
  if (info.live_ids.size() != (info.online ? attrs.size() : 0))
    return fail(std::errc::bad_message, "a ring of CPU {} has {} events instead of {}", info.cpu, info.live_ids.size(),
                info.online ? attrs.size() : 0);
  OpenRing ring;
  ring.info = info;
  for (std::size_t i = 0; i < info.live_ids.size(); ++i) {
    auto fd = take(fds, info.live_ids[i], info.cpu);
    if (!fd) return pass(fd.error());
    ring.events.push_back({.fd = std::move(*fd), .id = info.live_ids[i], .read_format = attrs[i].read_format});
  }
  if (info.kind != RingKind::sideband || !info.online || info.live_ids.front() != info.owner_id) {
    auto owner = take(fds, info.owner_id, info.cpu);
    if (!owner) return pass(owner.error());
    ring.owner = std::move(*owner);
  }
  for (const ManifestEvent* event : events) {
    auto& old = ring.old_ids.emplace_back();
    for (const ManifestId& id : event->ids)
      if (id.ring == index && std::find(info.live_ids.begin(), info.live_ids.end(), id.id) == info.live_ids.end())
        old.push_back(id.id);
  }
  auto mapping = map_ring(ring.owner_fd(), info, info.kind == RingKind::channel ? PROT_READ : PROT_READ | PROT_WRITE);
  if (!mapping) return pass(mapping.error());
  ring.mapping = std::move(*mapping);
  return ring;
}

// Whether its memory is certainly not new. A sideband's own event may have written into a new one by now, but nobody
// has read there.
bool is_held(const OpenRing& ring) {
  if (ring.info.kind != RingKind::sideband) return ring_head(ring.mapping) != 0;
  const auto* control = reinterpret_cast<const perf_event_mmap_page*>(ring.mapping.data());
  return __atomic_load_n(&control->data_tail, __ATOMIC_RELAXED) != 0;
}

bool same_channel(const Manifest& kept, const ChannelPlan& plan) {
  const auto events = events_of(kept, plan.config.name);
  return std::all_of(kept.rings.begin(), kept.rings.end(),
                     [&](const ManifestRing& ring) {
                       return ring.kind != RingKind::channel || ring.channel != plan.config.name ||
                              ring.ring_bytes == plan.ring_bytes;
                     }) &&
         std::equal(events.begin(), events.end(), plan.events.begin(), plan.events.end(),
                    [](const ManifestEvent* a, const EventPlan& b) {
                      return a->name == b.name && a->filter == b.filter && same_attr(a->attr, b.attr);
                    });
}

bool same_trigger(const Manifest& kept, const TriggerPlan& plan) {
  return plan.off.empty() && std::any_of(kept.triggers.begin(), kept.triggers.end(), [&](const ManifestTrigger& one) {
           return one.name == plan.name && one.event == plan.event.name && one.filter == plan.event.filter &&
                  one.format == plan.event.format && one.off.empty();
         });
}

// Rings that were halved to fit other CPUs than there are now stay as they are.
void keep_sizes(const Manifest& kept, RecordingPlan& plan) {
  for (ChannelPlan& channel : plan.channels)
    for (const ManifestRing& ring : kept.rings)
      if (ring.kind == RingKind::channel && ring.channel == channel.config.name) channel.ring_bytes = ring.ring_bytes;
}

}  // namespace

Result<void> Recording::State::take_rings(const Manifest& kept, const RecordingPlan& next, KeptEvents& events) {
  for (const ChannelPlan& channel : next.channels)
    if (same_channel(kept, channel)) channels.push_back({.plan = channel, .rings = {}});
  for (const TriggerPlan& trigger : next.triggers)
    if (same_trigger(kept, trigger)) triggers.push_back({.plan = trigger, .rings = {}});
  for (std::uint32_t i = 0; i < kept.rings.size(); ++i) {
    const ManifestRing& info = kept.rings[i];
    std::vector<OpenRing>* place = nullptr;
    std::vector<perf_event_attr> attrs;
    if (info.kind == RingKind::sideband) {
      place = &sideband;
      attrs.push_back(kept.events.front().attr);
    }
    for (OpenChannel& channel : channels) {
      if (info.kind != RingKind::channel || channel.plan.config.name != info.channel) continue;
      place = &channel.rings;
      for (const EventPlan& event : channel.plan.events) attrs.push_back(event.attr);
    }
    for (OpenTrigger& trigger : triggers) {
      if (info.kind != RingKind::trigger || trigger.plan.name != info.channel) continue;
      place = &trigger.rings;
      attrs.push_back(trigger.plan.event.attr);
    }
    if (place == nullptr) continue;  // the configuration has it no more
    auto ring = take_ring(
        kept, i, attrs,
        info.kind == RingKind::channel ? events_of(kept, info.channel) : std::vector<const ManifestEvent*>{}, events);
    if (!ring) return pass(ring.error());
    place->push_back(std::move(*ring));
  }
  if (sideband.empty()) return fail(std::errc::bad_message, "it has no sideband");
  return {};
}

Result<Recording> Recording::take_back(const Manifest& kept, KeptEvents events, const Config& config,
                                       const EventSources& sources, const KernelFeatures& features) {
  auto state = std::make_unique<State>();
  state->features = features;
  state->boot_id = HostInfo::read().boot_id;
  state->gaps = kept.gaps;
  if (kept.boot_id != state->boot_id) return fail(std::errc::no_such_device, "it is of another boot");
  if (!same_attr(kept.events.front().attr, sideband_attr(features)))
    return fail(std::errc::invalid_argument, "flightd-broker {} opened its sideband otherwise", kept.version);
  const auto online = online_cpus();
  if (!online) return pass(online.error());
  if (online->empty()) return fail(std::errc::no_such_device, "sysfs names no CPU that is online");
  const auto recorded = std::count_if(kept.rings.begin(), kept.rings.end(), [](const ManifestRing& ring) {
    return ring.kind == RingKind::sideband && ring.online;
  });
  auto plan = plan_recording(config, sources, features, static_cast<std::size_t>(recorded), online->front());
  if (!plan) return pass(plan.error());
  if (config.digest == kept.config_digest) keep_sizes(kept, *plan);
  if (auto taken = state->take_rings(kept, *plan, events); !taken) return pass(taken.error());

  bool held = false;
  state->for_each_ring([&](const OpenRing& ring) { held = held || is_held(ring); });
  if (!held) return fail(std::errc::no_such_device, "nobody held the rings' memory: flightd had ended as well");
  // One that flightd had not mapped yet is new, and nothing is written into it; to redirect twice does no harm.
  Result<void> redirected;
  state->for_each_ring([&](const OpenRing& ring) {
    if (redirected && ring_head(ring.mapping) == 0) redirected = ring.redirect();
  });
  if (!redirected) return pass(redirected.error());

  state->describe(kept.generation);
  // All stand still: the client of the broker before had switched them off. A suspend leaves the first CPU's alive.
  const bool off = state->dead_cpus().size() == state->cpus().size();
  Recording recording(std::move(state));
  static_cast<void>(
      recording.follow_cpus(*online, off ? Probe::none : Probe::routine, monotonic_now() - kLookedWithinNs));
  if (auto followed = recording.state_->follow_plan(std::move(*plan), config.digest); !followed)
    return pass(followed.error());
  // The client of the broker before may have switched them off.
  if (auto on = recording.enable_all(true); !on) return pass(on.error());
  return recording;
}

}  // namespace flight
