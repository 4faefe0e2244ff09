// SPDX-License-Identifier: Apache-2.0
// Adopts the events of a broker that died. They record as long as their descriptors are open; the rings' memory exists
// as long as it is mapped. The manifest of the dead broker describes each event, and each entry is verified against
// the event.
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

// A broker checks its CPUs at least this often, so an event that died with its CPU died after the last check.
constexpr EventTime kLookedWithinNs = 30'000'000'000;

bool same_attr(const perf_event_attr& a, const perf_event_attr& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

Result<UniqueFd> take(KeptEvents& events, std::uint64_t id, int cpu) {
  const auto at = events.find(id);
  if (at == events.end()) return fail(std::errc::no_such_device, "the event {} of CPU {} was not stored", id, cpu);
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

// What the previous broker opened below its plan stays below it, and in its warnings.
OpenedBelow below_of(const std::vector<const ManifestEvent*>& events, std::size_t index, std::uint64_t id) {
  if (index >= events.size()) return {};
  const std::vector<ManifestId>& ids = events[index]->ids;
  const auto at = std::find_if(ids.begin(), ids.end(), [&](const ManifestId& one) { return one.id == id; });
  return at == ids.end() ? OpenedBelow{} : at->below;
}

// `attrs`: of its events, in order; `events`: their entries in the manifest; none for a trigger.
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
    if (!fd) return propagate(fd.error());
    ring.events.push_back({.fd = std::move(*fd),
                           .id = info.live_ids[i],
                           .read_format = attrs[i].read_format,
                           .below = below_of(events, i, info.live_ids[i])});
  }
  if (info.kind != RingKind::sideband || !info.online || info.live_ids.front() != info.owner_id) {
    auto owner = take(fds, info.owner_id, info.cpu);
    if (!owner) return propagate(owner.error());
    ring.owner = std::move(*owner);
  }
  for (const ManifestEvent* event : events) {
    auto& old = ring.old_ids.emplace_back();
    for (const ManifestId& id : event->ids)
      if (id.ring == index && std::find(info.live_ids.begin(), info.live_ids.end(), id.id) == info.live_ids.end())
        old.push_back({id.id, id.below});
  }
  auto mapping = map_ring(ring.owner_fd(), info, info.kind == RingKind::channel ? PROT_READ : PROT_READ | PROT_WRITE);
  if (!mapping) return propagate(mapping.error());
  ring.mapping = std::move(*mapping);
  return ring;
}

// Whether the ring's memory was mapped all the time. It is freed with the last mapping, and the redirection of all
// events with it (perf_mmap_close() detaches them); a sideband's own event continues in new memory, which no process
// has read. So if all heads are 0 and no sideband tail moved, the history is lost.
bool is_held(const OpenRing& ring) {
  if (ring.info.kind != RingKind::sideband) return ring_head(ring.mapping) != 0;
  const auto* control = reinterpret_cast<const perf_event_mmap_page*>(ring.mapping.data());
  return __atomic_load_n(&control->data_tail, __ATOMIC_RELAXED) != 0;
}

// Compares what was configured. The limits of the machine may have changed since then, and the history must not end
// with that.
bool same_event(const ManifestEvent& kept, const EventPlan& plan) {
  perf_event_attr attr = kept.attr;
  // Another one in place of a configured event, then or now: whether it is needed, and which, depends on the machine.
  if ((!kept.why.empty() || !plan.replaced.why.empty()) && kept.configured == plan.configured)
    return kept.filter == plan.filter && kept.max_stack == plan.max_stack &&
           (kept.frequency == plan.frequency || kept.frequency == 0 || plan.frequency == 0);
  if (kept.frequency == plan.frequency && kept.max_stack == plan.max_stack) {
    if (attr.freq != 0 && plan.attr.freq != 0 && kept.frequency != 0) attr.sample_freq = plan.attr.sample_freq;
    if (kept.max_stack != 0) attr.sample_max_stack = plan.attr.sample_max_stack;
  }
  return kept.name == plan.name && kept.filter == plan.filter && same_attr(attr, plan.attr);
}

EventPlan as_opened(const ManifestEvent& kept, EventPlan plan) {
  plan.name = kept.name;
  plan.attr = kept.attr;
  plan.frequency = kept.frequency;
  plan.max_stack = kept.max_stack;
  plan.configured = kept.configured;
  plan.replaced = {.why = kept.why, .expected = kept.expected};
  plan.left_out = kept.left_out;
  return plan;
}

// `plan` with the events that are open.
OpenChannel as_opened(const Manifest& kept, ChannelPlan plan) {
  const auto events = events_of(kept, plan.config.name);
  for (std::size_t i = 0; i < plan.events.size(); ++i)
    plan.events[i] = as_opened(*events[i], std::move(plan.events[i]));
  OpenChannel channel{.plan = std::move(plan), .rings = {}};
  for (const ManifestEvent& event : kept.events) {
    if (event.channel != channel.plan.config.name || !event.closed) continue;
    FormerEvent& former = channel.former.emplace_back();
    former.plan = as_opened(event, {});
    former.plan.filter = event.filter;
    for (const ManifestId& id : event.ids) former.ids.push_back({id.id, id.cpu, id.below});
  }
  return channel;
}

// As configured. Without an entry they are all CPUs.
bool same_cpus(const Manifest& kept, const ChannelConfig& config) {
  const auto at = std::find_if(kept.channels.begin(), kept.channels.end(),
                               [&](const ManifestChannel& one) { return one.name == config.name; });
  return at == kept.channels.end() ? config.cpus.empty() : at->cpus == config.cpus;
}

bool same_channel(const Manifest& kept, const ChannelPlan& plan) {
  const auto events = events_of(kept, plan.config.name);
  return same_cpus(kept, plan.config) &&
         std::all_of(kept.rings.begin(), kept.rings.end(),
                     [&](const ManifestRing& ring) {
                       return ring.kind != RingKind::channel || ring.channel != plan.config.name ||
                              ring.ring_bytes == plan.ring_bytes;
                     }) &&
         std::equal(events.begin(), events.end(), plan.events.begin(), plan.events.end(),
                    [](const ManifestEvent* a, const EventPlan& b) { return same_event(*a, b); });
}

bool same_trigger(const Manifest& kept, const TriggerPlan& plan) {
  return plan.off.empty() && std::any_of(kept.triggers.begin(), kept.triggers.end(), [&](const ManifestTrigger& one) {
           return one.name == plan.name && one.event == plan.event.name && one.filter == plan.event.filter &&
                  one.format == plan.event.format && one.off.empty();
         });
}

// Rings that were halved for another number of CPUs stay as they are.
void keep_sizes(const Manifest& kept, RecordingPlan& plan) {
  for (ChannelPlan& channel : plan.channels)
    for (const ManifestRing& ring : kept.rings)
      if (ring.kind == RingKind::channel && ring.channel == channel.config.name) channel.ring_bytes = ring.ring_bytes;
}

}  // namespace

Result<void> Recording::State::take_rings(const Manifest& kept, const RecordingPlan& next, KeptEvents& events) {
  for (const ChannelPlan& channel : next.channels)
    if (same_channel(kept, channel)) channels.push_back(as_opened(kept, channel));
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
    if (place == nullptr) continue;  // no longer in the configuration
    std::vector<const ManifestEvent*> described;
    if (info.kind == RingKind::sideband) described.push_back(&kept.events.front());
    if (info.kind == RingKind::channel) described = events_of(kept, info.channel);
    auto ring = take_ring(kept, i, attrs, described, events);
    if (!ring) return propagate(ring.error());
    place->push_back(std::move(*ring));
  }
  if (sideband.empty()) return fail(std::errc::bad_message, "it has no sideband");
  return {};
}

Result<Recording> Recording::adopt(const Manifest& kept, KeptEvents events, const Config& config,
                                   const EventSources& sources, const KernelFeatures& features) {
  auto state = std::make_unique<State>();
  state->features = features;
  state->boot_id = HostInfo::read().boot_id;
  state->gaps = kept.gaps;
  if (kept.boot_id != state->boot_id) return fail(std::errc::no_such_device, "it belongs to another boot");
  if (!same_attr(kept.events.front().attr, sideband_attr(features)))
    return fail(std::errc::invalid_argument, "flightd-broker {} opened its sideband with other attributes",
                kept.version);
  const auto online = online_cpus();
  if (!online) return propagate(online.error());
  if (online->empty()) return fail(std::errc::no_such_device, "sysfs lists no online CPU");
  const auto recorded = std::count_if(kept.rings.begin(), kept.rings.end(), [](const ManifestRing& ring) {
    return ring.kind == RingKind::sideband && ring.online;
  });
  auto plan = plan_recording(config, sources, features, static_cast<std::size_t>(recorded), *online);
  if (!plan) return propagate(plan.error());
  if (config.digest == kept.config_digest) keep_sizes(kept, *plan);
  if (auto taken = state->take_rings(kept, *plan, events); !taken) return propagate(taken.error());

  bool held = false;
  state->for_each_ring([&](const OpenRing& ring) { held = held || is_held(ring); });
  if (!held) return fail(std::errc::no_such_device, "the rings' memory was freed: flightd had ended as well");
  // A single ring at 0 may be one that flightd had not mapped yet; repeating SET_OUTPUT has no other effect.
  Result<void> redirected;
  state->for_each_ring([&](const OpenRing& ring) {
    if (redirected && ring_head(ring.mapping) == 0) redirected = ring.redirect();
  });
  if (!redirected) return propagate(redirected.error());

  state->describe(kept.generation);
  // If no event counts, the previous broker's client had disabled them. In a suspend, those of the first CPU stay
  // alive.
  const bool off = state->dead_cpus().size() == state->cpus().size();
  state->plan.nohz_full = plan->nohz_full;  // for a CPU that returns
  Recording recording(std::move(state));
  static_cast<void>(
      recording.follow_cpus(*online, off ? Probe::none : Probe::routine, monotonic_now() - kLookedWithinNs));
  if (auto followed = recording.state_->follow_plan(std::move(*plan), config.digest, false); !followed)
    return propagate(followed.error());
  // The previous broker's client may have disabled them.
  if (auto on = recording.enable_all(true); !on) return propagate(on.error());
  return recording;
}

}  // namespace flight
