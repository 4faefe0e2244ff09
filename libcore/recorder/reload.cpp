// SPDX-License-Identifier: Apache-2.0
// Applies another configuration to a running recording. Everything that can fail is done first, beside the current
// events; only then are they replaced.
#include <algorithm>
#include <cerrno>

#include "libcore/recorder/limits.hpp"
#include "libcore/recorder/recording_state.hpp"
#include "libcore/recorder/stand_in.hpp"

namespace flight {
namespace {

// The result of a reload for the channels, or for the triggers: `opened` has the new ones, and an empty one in the
// place of each that is in `kept`.
template <typename Open>
struct Next {
  static constexpr std::size_t kNew = SIZE_MAX;
  std::vector<Open> opened;
  std::vector<std::size_t> kept;  // its index among the old ones, or kNew
};

template <typename Open, typename Plan>
Result<Next<Open>> open_next(const std::vector<Open>& old, const std::vector<Plan>& plans,
                             const KernelFeatures& features, const std::vector<int>& cpus, bool on) {
  Next<Open> next;
  for (const Plan& plan : plans) {
    const auto same = std::find_if(old.begin(), old.end(), [&](const Open& one) { return one.plan.same_as(plan); });
    if (same != old.end()) {
      next.kept.push_back(static_cast<std::size_t>(same - old.begin()));
      next.opened.emplace_back();
      continue;
    }
    auto opened = Open::open(plan, features, cpus);
    if (!opened) return propagate(opened.error());
    for (OpenRing& ring : opened->rings)
      if (on)
        if (auto enabled = ring.enable(); !enabled) return propagate(enabled.error());
    next.kept.push_back(Next<Open>::kNew);
    next.opened.push_back(std::move(*opened));
  }
  return next;
}

// What stays open keeps its events; the rest of the plan is new (the ring size before it was halved).
void renew(ChannelPlan& opened, const ChannelPlan& plan) {
  std::vector<EventPlan> events = std::move(opened.events);
  for (std::size_t i = 0; i < events.size() && i < plan.events.size(); ++i) events[i].place = plan.events[i].place;
  opened = plan;
  opened.events = std::move(events);
}
void renew(TriggerPlan& opened, const TriggerPlan& plan) { opened = plan; }

// Whether the rings changed, or their order.
template <typename Open, typename Plan>
bool take_over(std::vector<Open>& old, Next<Open> next, const std::vector<Plan>& plans) {
  bool changed = next.opened.size() != old.size();
  for (std::size_t i = 0; i < next.opened.size(); ++i) {
    changed = changed || next.kept[i] != i;
    if (next.kept[i] == Next<Open>::kNew) continue;
    next.opened[i] = std::move(old[next.kept[i]]);
    renew(next.opened[i].plan, plans[i]);
  }
  old = std::move(next.opened);
  return changed;
}

// A limit of the kernel under which it was opened was raised.
bool is_below(const OpenChannel& channel, std::size_t event, const EventPlan& planned) {
  const EventPlan& plan = channel.plan.events[event];
  if (plan.name != planned.name) return false;
  const auto less = [&](std::uint64_t frequency, std::uint16_t max_stack) {
    return (plan.attr.freq != 0 && frequency < planned.attr.sample_freq) || max_stack < planned.attr.sample_max_stack;
  };
  return less(plan.attr.sample_freq, plan.attr.sample_max_stack) ||
         std::any_of(channel.rings.begin(), channel.rings.end(), [&](const OpenRing& ring) {
           if (!ring.info.online || event >= ring.events.size()) return false;
           const OpenEvent& open = ring.events[event];
           return less(open.below.frequency != 0 ? open.below.frequency : plan.attr.sample_freq,
                       open.below.max_stack != 0 ? open.below.max_stack : plan.attr.sample_max_stack);
         });
}

}  // namespace

Result<bool> Recording::State::follow_plan(RecordingPlan next, const std::string& digest, bool configured) {
  const std::vector<int> recorded = cpus();
  fit_descriptors(next, recorded.size());
  if (auto few = check_ring_count(next, recorded.size()); !few) return propagate(few.error());
  const std::size_t fd_count = fds_needed(next, recorded.size());
  auto next_channels = open_next(channels, next.channels, features, recorded, on);
  if (!next_channels) return explain_limit(next_channels.error(), fd_count);
  auto next_triggers = open_next(triggers, next.triggers, features, recorded, on);
  if (!next_triggers) return explain_limit(next_triggers.error(), fd_count);

  const bool other_channels = take_over(channels, std::move(*next_channels), next.channels);
  const bool other_triggers = take_over(triggers, std::move(*next_triggers), next.triggers);
  bool changed = other_channels || other_triggers;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    OpenChannel& channel = channels[i];
    const std::vector<EventPlan>& planned = next.channels[i].events;
    for (std::size_t event = 0; event < planned.size(); ++event) {
      ChannelPlan wanted = channel.plan;
      wanted.events[event] = planned[event];
      omit_repeated(wanted, event, features);  // beside what stays open
      const EventPlan& open = channel.plan.events[event];
      if (configured && (distance_from_configured(wanted.events[event]) < distance_from_configured(open) ||
                         is_below(channel, event, wanted.events[event]))) {
        if (replace_event(channel, event, std::move(wanted.events[event]))) changed = true;
        continue;
      }
      // An earlier version opened it on CPUs that are left out now.
      EventPlan there = open;
      there.left_out.clear();
      leave_out(there, next.nohz_full);
      if (there.left_out != open.left_out && replace_event(channel, event, std::move(there))) changed = true;
    }
  }
  plan = std::move(next);
  config_digest = digest;
  describe(manifest.generation + (changed ? 1 : 0));
  return changed;
}

Result<bool> Recording::reload(const Config& config, const EventSources& sources) {
  const std::vector<int> cpus = state_->cpus();
  if (cpus.empty()) return fail(std::errc::no_such_device, "no CPU can be recorded");
  state_->features.read_limits();
  auto plan = plan_recording(config, sources, state_->features, cpus.size(), cpus);
  if (!plan) return propagate(plan.error());
  return state_->follow_plan(std::move(*plan), config.digest, true);
}

}  // namespace flight
