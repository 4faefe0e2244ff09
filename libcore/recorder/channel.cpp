// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/channel.hpp"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/recorder/channel_cpus.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/recorder/ring_memory.hpp"

namespace flight {
namespace {

Result<OpenEvent> open_one(const perf_event_attr& attr, int cpu, std::string_view name) {
  perf_event_attr opened = attr;
  auto fd = open_within_limits(opened, cpu, name);
  if (!fd) return propagate(fd.error());
  auto id = event_id(fd->get());
  if (!id) return propagate(id.error());
  OpenEvent event{.fd = std::move(*fd), .id = *id, .read_format = attr.read_format};
  if (attr.freq != 0 && opened.sample_freq != attr.sample_freq) event.below.frequency = opened.sample_freq;
  if (opened.sample_max_stack != attr.sample_max_stack) event.below.max_stack = opened.sample_max_stack;
  return event;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Result<void> set_filter(const OpenEvent& event, const EventPlan& plan) {
  if (plan.filter.empty()) return {};
  if (::ioctl(event.fd.get(), PERF_EVENT_IOC_SET_FILTER, plan.filter.c_str()) == 0) return {};
  const int error_number = errno;
  if (error_number == EINVAL)
    return fail(
        std::errc::invalid_argument,
        "event {}: the kernel does not understand the filter '{}'; it compares fields with == != < <= > >= & ~, "
        "joined by && and ||, and {}'s format file has the fields {}",
        plan.name, plan.filter, plan.tracepoint, join(format_fields(plan.format)));
  return sys_error(error_number, "event {}: set the filter '{}'", plan.name, plan.filter);
}

// On the CPUs that it leaves out a dummy is opened instead.
perf_event_attr attr_on(const EventPlan& plan, int cpu) {
  perf_event_attr attr = plan.attr;
  if (plan.records_on(cpu)) return attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.freq = 0;
  attr.sample_period = 1;
  return attr;
}

Result<OpenEvent> open_into(const EventPlan& plan, int cpu, int owner) {
  auto event = open_one(attr_on(plan, cpu), cpu, plan.name);
  if (!event) return propagate(event.error());
  if (auto set = set_filter(*event, plan); !set) return propagate(set.error());
  if (::ioctl(event->fd.get(), PERF_EVENT_IOC_SET_OUTPUT, owner) != 0)
    return sys_error(errno, "event {}: redirect it into its ring on CPU {}", plan.name, cpu);
  return event;
}

Result<std::vector<OpenEvent>> open_all_into(const ChannelPlan& plan, int cpu, int owner) {
  std::vector<OpenEvent> events;
  for (const EventPlan& event : plan.events) {
    auto opened = open_into(event, cpu, owner);
    if (!opened) return wrap(opened.error(), "{}channel '{}'", event.place, plan.config.name);
    events.push_back(std::move(*opened));
  }
  return events;
}

Result<void> switch_event(int fd, unsigned long request, const ManifestRing& ring) {
  if (::ioctl(fd, request, 0) == 0) return {};
  return sys_error(errno, "{} an event of {} '{}' on CPU {}", request == PERF_EVENT_IOC_ENABLE ? "enable" : "disable",
                   ring.kind == RingKind::trigger ? "trigger" : "channel", ring.channel, ring.cpu);
}

}  // namespace

Result<UniqueFd> open_within_limits(perf_event_attr& attr, int cpu, std::string_view name) {
  auto fd = open_event(attr, cpu, name);
  // Above perf_event_max_sample_rate, and above perf_event_max_stack (perf_event_open(2)).
  if (fd || (fd.error().errno_value() != EINVAL && fd.error().errno_value() != EOVERFLOW)) return fd;
  KernelFeatures now;
  now.max_stack = std::numeric_limits<std::uint16_t>::max();
  now.read_limits();
  perf_event_attr lower = attr;
  if (attr.freq != 0) lower.sample_freq = std::min<std::uint64_t>(attr.sample_freq, now.max_sample_rate);
  lower.sample_max_stack = std::min(attr.sample_max_stack, now.max_stack);
  if (lower.sample_freq == attr.sample_freq && lower.sample_max_stack == attr.sample_max_stack) return fd;
  fd = open_event(lower, cpu, name);
  if (fd) attr = lower;
  return fd;
}

Result<EventCount> OpenEvent::count() const {
  // u64 value, then by read_format: time_enabled, time_running, id, lost (perf_event_open(2)).
  std::array<std::uint64_t, 5> words{};
  const ssize_t got = ::read(fd.get(), words.data(), sizeof words);
  if (got < 0) return sys_error(errno, "read the count of event id {}", id);
  EventCount count{.id = id, .value = words[0], .lost = 0};
  std::size_t at = 1;
  for (const std::uint64_t field :
       {PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_FORMAT_ID, PERF_FORMAT_LOST}) {
    if ((read_format & field) == 0) continue;
    if (field == PERF_FORMAT_LOST && static_cast<std::size_t>(got) >= (at + 1) * sizeof words[0])
      count.lost = words[at];
    ++at;
  }
  return count;
}

std::optional<OpenEvent::Times> OpenEvent::times() const {
  std::array<std::uint64_t, 5> words{};  // value, time_enabled, time_running, …
  if (::read(fd.get(), words.data(), sizeof words) < 0) return std::nullopt;
  return Times{.enabled_ns = words[1], .running_ns = words[2]};
}

Result<void> OpenRing::enable() {
  if (!info.owner_died)
    if (auto on = switch_event(owner_fd(), PERF_EVENT_IOC_ENABLE, info); !on) return on;
  for (const OpenEvent& event : events)
    if (auto on = switch_event(event.fd.get(), PERF_EVENT_IOC_ENABLE, info); !on) return on;
  if (info.enabled_ns == 0) info.enabled_ns = monotonic_now();
  return {};
}

Result<void> OpenRing::disable() const {
  for (const OpenEvent& event : events)
    if (auto off = switch_event(event.fd.get(), PERF_EVENT_IOC_DISABLE, info); !off) return off;
  return switch_event(owner_fd(), PERF_EVENT_IOC_DISABLE, info);
}

void OpenRing::retire() {
  old_ids.resize(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    // If it is alive after all, records must not be written twice.
    ::ioctl(events[i].fd.get(), PERF_EVENT_IOC_DISABLE, 0);
    if (old_ids[i].size() == kMaxOldIds) old_ids[i].erase(old_ids[i].begin());
    old_ids[i].push_back({events[i].id, events[i].below});
  }
  if (!owner) owner = std::move(events.front().fd);
  info.owner_died = true;
  events.clear();
  info.online = false;
}

void OpenRing::revive(std::vector<OpenEvent> successors) {
  events = std::move(successors);
  info.online = true;
}

Result<void> OpenRing::redirect() const {
  for (const OpenEvent& event : events)
    if (event.id != info.owner_id && ::ioctl(event.fd.get(), PERF_EVENT_IOC_SET_OUTPUT, owner_fd()) != 0)
      return sys_error(errno, "redirect event {} of CPU {} into its ring", event.id, info.cpu);
  return {};
}

Result<OpenRing> open_sideband_ring(const KernelFeatures& features, int cpu, std::uint64_t ring_bytes) {
  OpenRing ring;
  ring.info = {.kind = RingKind::sideband, .channel = {}, .cpu = cpu, .ring_bytes = ring_bytes};
  auto event = open_one(sideband_attr(features), cpu, "dummy (sideband)");
  if (!event) return propagate(event.error());
  // Read-write, and before flightd maps it: because of the first mapping the kernel stops at data_tail.
  auto mapping = map_ring(event->fd.get(), ring.info, PROT_READ | PROT_WRITE);
  if (!mapping) return propagate(mapping.error());
  ring.mapping = std::move(*mapping);
  ring.info.owner_id = event->id;
  ring.events.push_back(std::move(*event));
  return ring;
}

Result<OpenRing> open_channel_ring(const ChannelPlan& plan, const KernelFeatures& features, int cpu) {
  OpenRing ring;
  ring.info = {.kind = RingKind::channel, .channel = plan.config.name, .cpu = cpu, .ring_bytes = plan.ring_bytes};
  auto owner = open_one(owner_attr(features), cpu, "dummy");
  if (!owner) return wrap(owner.error(), "channel '{}'", plan.config.name);
  auto mapping = map_ring(owner->fd.get(), ring.info, PROT_READ);
  if (!mapping) return propagate(mapping.error());
  ring.owner = std::move(owner->fd);
  ring.info.owner_id = owner->id;
  ring.mapping = std::move(*mapping);
  auto events = open_all_into(plan, cpu, ring.owner.get());
  if (!events) return propagate(events.error());
  ring.events = std::move(*events);
  return ring;
}

Result<OpenRing> open_trigger_ring(const TriggerPlan& plan, const KernelFeatures& features, int cpu) {
  OpenRing ring;
  ring.info = {.kind = RingKind::trigger, .channel = plan.name, .cpu = cpu, .ring_bytes = trigger_ring_bytes()};
  auto owner = open_one(trigger_owner_attr(features), cpu, "dummy");
  if (!owner) return wrap(owner.error(), "trigger '{}'", plan.name);
  // Read-write, like the sideband's.
  auto mapping = map_ring(owner->fd.get(), ring.info, PROT_READ | PROT_WRITE);
  if (!mapping) return propagate(mapping.error());
  ring.owner = std::move(owner->fd);
  ring.info.owner_id = owner->id;
  ring.mapping = std::move(*mapping);
  if (auto opened = reopen_trigger(ring, plan); !opened) return propagate(opened.error());
  return ring;
}

Result<void> reopen_sideband(OpenRing& ring, const KernelFeatures& features) {
  auto event = open_one(sideband_attr(features), ring.info.cpu, "dummy (sideband)");
  if (!event) return propagate(event.error());
  if (::ioctl(event->fd.get(), PERF_EVENT_IOC_SET_OUTPUT, ring.owner.get()) != 0)
    return sys_error(errno, "redirect the new sideband event into the old ring of CPU {}", ring.info.cpu);
  std::vector<OpenEvent> events;
  events.push_back(std::move(*event));
  ring.revive(std::move(events));
  return {};
}

Result<void> reopen_channel(OpenRing& ring, const ChannelPlan& plan) {
  auto events = open_all_into(plan, ring.info.cpu, ring.owner.get());
  if (!events) return propagate(events.error());
  ring.revive(std::move(*events));
  return {};
}

Result<void> reopen_trigger(OpenRing& ring, const TriggerPlan& plan) {
  auto event = open_into(plan.event, ring.info.cpu, ring.owner.get());
  if (!event) return wrap(event.error(), "{}trigger '{}'", plan.event.place, plan.name);
  std::vector<OpenEvent> events;
  events.push_back(std::move(*event));
  ring.revive(std::move(events));
  return {};
}

Result<OpenEvent> open_successor(const EventPlan& plan, const OpenRing& ring, bool on) {
  auto event = open_into(plan, ring.info.cpu, ring.owner.get());
  if (event && on)
    if (auto enabled = switch_event(event->fd.get(), PERF_EVENT_IOC_ENABLE, ring.info); !enabled)
      return propagate(enabled.error());
  return event;
}

Result<OpenChannel> OpenChannel::open(const ChannelPlan& plan, const KernelFeatures& features,
                                      const std::vector<int>& cpus) {
  OpenChannel channel{.plan = plan, .rings = {}};
  for (const int cpu : those_recorded(plan.config.cpus, cpus)) {
    auto ring = open_channel_ring(plan, features, cpu);
    if (!ring && ring.error().errno_value() == ENODEV) continue;
    if (!ring) return propagate(ring.error());
    channel.rings.push_back(std::move(*ring));
  }
  return channel;
}

Result<OpenTrigger> OpenTrigger::open(const TriggerPlan& plan, const KernelFeatures& features,
                                      const std::vector<int>& cpus) {
  OpenTrigger trigger{.plan = plan, .rings = {}};
  if (!plan.off.empty()) return trigger;
  for (const int cpu : cpus) {
    auto ring = open_trigger_ring(plan, features, cpu);
    if (!ring && ring.error().errno_value() == ENODEV) continue;
    if (!ring) return propagate(ring.error());
    trigger.rings.push_back(std::move(*ring));
  }
  return trigger;
}

}  // namespace flight
