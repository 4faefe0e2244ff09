// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/delivery.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/recorder/recording_state.hpp"
#include "libcore/recorder/ring_memory.hpp"
#include "libcore/recorder/stand_in.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

constexpr EventTime kNotBeforeNs = 2'000'000'000;  // after it was enabled
constexpr std::size_t kMostRecords = 100'000;

// Counters of /proc/stat can go backwards when a CPU returns.
std::uint64_t grown(std::uint64_t before, std::uint64_t now) { return now > before ? now - before : 0; }

std::string listed(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  return (cpus.size() == 1 ? "CPU " : "CPUs ") + format_cpu_list(cpus);
}

bool is_judged(const EventPlan& event) { return event.attr.freq != 0 && counts_while_busy(event.attr); }

// Not judged, and expected to occur: a tracepoint is often for something rare, and another warning names what is
// omitted.
bool is_awaited(const EventPlan& event) {
  return !is_judged(event) && event.attr.type != PERF_TYPE_TRACEPOINT && !is_omitted(event);
}

}  // namespace

CpuBusy busy_of(const CpuTicks& cpu) {
  constexpr std::uint64_t kTickNs = 1'000'000'000 / kTicksPerSecond;
  const std::uint64_t user = cpu.of(CpuColumn::user) + cpu.of(CpuColumn::nice);
  const std::uint64_t guest = std::min(user, cpu.guest + cpu.guest_nice);
  return {.cpu = cpu.cpu, .user_ns = (user - guest) * kTickNs, .system_ns = cpu.of(CpuColumn::system) * kTickNs};
}

void EventDelivery::look(const perf_event_attr& attr, const Look& now) {
  if (now.sampled) {
    expected_ = 0;
    delivered_ = true;
  } else if (last_) {
    const std::uint64_t enabled_ns = grown(last_->enabled_ns, now.enabled_ns);
    const std::uint64_t running_ns = grown(last_->running_ns, now.running_ns);
    std::uint64_t busy_ns = 0;
    if (attr.exclude_user == 0) busy_ns += grown(last_->busy.user_ns, now.busy.user_ns);
    if (attr.exclude_kernel == 0) busy_ns += grown(last_->busy.system_ns, now.busy.system_ns);
    if (enabled_ns > 0)
      expected_ += static_cast<double>(attr.sample_freq) * (static_cast<double>(busy_ns) / 1e9) *
                   std::min(1.0, static_cast<double>(running_ns) / static_cast<double>(enabled_ns));
  }
  last_ = now;
}

namespace {

// Calls visit(id) for each SAMPLE, the newest first, until it returns false. False: it did not reach the end.
template <typename Visit>
bool visit_samples(std::span<const std::byte> data, std::uint64_t head, std::uint64_t old_head, const Visit& visit) {
  const std::uint64_t mask = data.size() - 1;
  const std::uint64_t size = std::min<std::uint64_t>(old_head - head, data.size());
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < kMostRecords; ++i) {
    // Records are multiples of 8 bytes, so neither a header nor an id wraps around the end.
    if (at + kRecordHeaderBytes + sizeof(std::uint64_t) > size) return true;
    const auto header = load<perf_event_header>(&data[(head + at) & mask]);
    if (header.size < kRecordHeaderBytes || header.size % 8 != 0) return false;  // overwritten meanwhile
    if (header.type == PERF_RECORD_SAMPLE &&
        !visit(load<std::uint64_t>(&data[(head + at + kRecordHeaderBytes) & mask])))
      return false;
    at += header.size;
  }
  return false;
}

}  // namespace

Found find_sample(std::span<const std::byte> data, std::uint64_t head, std::uint64_t old_head, std::uint64_t id) {
  bool found = false;
  const bool ended = visit_samples(data, head, old_head, [&](std::uint64_t seen) {
    found = seen == id;
    return !found;
  });
  if (found) return Found::sample;
  // A sample may have been overwritten.
  return ended && old_head - head <= data.size() ? Found::none : Found::unknown;
}

std::vector<std::size_t> find_samples(std::span<const std::byte> data, std::uint64_t head, std::uint64_t old_head,
                                      std::span<const std::uint64_t> ids) {
  std::vector<std::size_t> found;
  if (ids.empty()) return found;
  (void)visit_samples(data, head, old_head, [&](std::uint64_t seen) {
    const auto at = std::find(ids.begin(), ids.end(), seen);
    const auto index = static_cast<std::size_t>(at - ids.begin());
    if (at != ids.end() && std::find(found.begin(), found.end(), index) == found.end()) found.push_back(index);
    return found.size() < ids.size();
  });
  return found;
}

void Recording::State::look_at(const OpenRing& ring, const OpenEvent& event, const perf_event_attr& attr,
                               const CpuBusy& busy, EventTime now_ns) {
  perf_event_attr opened = attr;
  if (event.below.frequency != 0) opened.sample_freq = event.below.frequency;
  Watched& watched = deliveries[event.id];
  const auto times = event.times();
  if (!times || ring.info.enabled_ns == 0 || now_ns - std::min(now_ns, ring.info.enabled_ns) < kNotBeforeNs) return;
  const std::uint64_t head = ring_head(ring.mapping);
  const auto data = ring.mapping.bytes().subspan(page_bytes());
  const Found found = find_sample(data, head, watched.head, event.id);
  watched.head = head;
  if (found == Found::unknown) return watched.delivery.interrupt();
  watched.delivery.look(opened, {.enabled_ns = times->enabled_ns,
                                 .running_ns = times->running_ns,
                                 .busy = busy,
                                 .sampled = found == Found::sample});
}

void Recording::State::look_for_unjudged(OpenChannel& channel) {
  const std::vector<EventPlan>& events = channel.plan.events;
  channel.seen.resize(events.size(), false);
  // A tracepoint counts only for a channel for which nothing else proves that it is recorded.
  const bool proven = std::any_of(events.begin(), events.end(), is_judged) ||
                      std::find(channel.seen.begin(), channel.seen.end(), true) != channel.seen.end();
  for (OpenRing& ring : channel.rings) {
    std::vector<std::uint64_t> ids;
    std::vector<std::size_t> indexes;
    for (std::size_t i = 0; i < std::min(ring.events.size(), events.size()); ++i) {
      if (is_judged(events[i]) || channel.seen[i] || (proven && !is_awaited(events[i]))) continue;
      ids.push_back(ring.events[i].id);
      indexes.push_back(i);
    }
    const std::uint64_t head = ring_head(ring.mapping);
    const auto data = ring.mapping.bytes().subspan(page_bytes());
    for (const std::size_t found : find_samples(data, head, ring.looked_head, ids)) channel.seen[indexes[found]] = true;
    ring.looked_head = head;
  }
}

std::vector<std::string> Recording::State::unseen_of(const OpenChannel& channel) {
  std::vector<std::string> out;
  const std::vector<EventPlan>& events = channel.plan.events;
  const std::string& name = channel.plan.config.name;
  bool any = false;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool seen = channel.seen[i];
    any = any || seen || is_judged(events[i]);
    if (!seen && is_awaited(events[i])) out.push_back(fmt::format("{}: {}", name, events[i].name));
  }
  if (!any && !out.empty()) return {name};
  return out;
}

bool Recording::State::replace_silent(OpenChannel& channel, std::size_t index, const std::vector<int>& cpus) {
  const EventPlan& event = channel.plan.events[index];
  if (event.attr.type != PERF_TYPE_HARDWARE) return false;
  auto clock = cpu_clock_for(
      channel.plan.config.events[index], event, features,
      {.why = fmt::format("{} can be opened but delivered no sample while {} {} busy (a virtual machine without a "
                          "working PMU?)",
                          event.name, listed(cpus), cpus.size() == 1 ? "was" : "were"),
       .expected = false});
  leave_out(clock, plan.nohz_full);
  if (std::any_of(channel.plan.events.begin(), channel.plan.events.end(),
                  [&](const EventPlan& other) { return other.name == clock.name; }))
    return false;
  // If a CPU has just gone offline, the next look tries again.
  return bool(replace_event(channel, index, std::move(clock)));
}

bool Recording::State::replace_refused(OpenChannel& channel, int cpu) {
  bool replaced = false;
  for (std::size_t i = 0; i < channel.plan.events.size(); ++i) {
    auto refused = refused_on(channel.plan.events[i], {cpu}, features);
    if (!refused) continue;
    refused->cpus = {cpu};
    ChannelPlan next = channel.plan;
    next.events[i] =
        stand_in(channel.plan.config.events[i], channel.plan.events[i], {cpu}, features, std::move(*refused));
    leave_out(next.events[i], plan.nohz_full);
    omit_repeated(next, i, features);
    // The other CPUs go on, rather than nothing on all of them.
    if (records_any(next.events)) replaced = bool(replace_event(channel, i, std::move(next.events[i]))) || replaced;
  }
  return replaced;
}

Result<void> Recording::State::replace_event(OpenChannel& channel, std::size_t index, EventPlan next) {
  std::vector<std::pair<OpenRing*, OpenEvent>> successors;
  next.place = channel.plan.events[index].place;
  for (OpenRing& ring : channel.rings) {
    if (!ring.info.online) continue;
    auto opened = open_successor(next, ring, on);
    if (!opened) return propagate(opened.error());
    successors.emplace_back(&ring, std::move(*opened));
  }
  FormerEvent former{.plan = channel.plan.events[index], .ids = {}};
  bool written = false;
  for (OpenRing& ring : channel.rings) {
    if (index >= ring.old_ids.size()) continue;
    for (const OldId& old : ring.old_ids[index]) former.ids.push_back({old.id, ring.info.cpu, old.below});
    written = written || !ring.old_ids[index].empty();
    ring.old_ids[index].clear();
  }
  for (auto& [ring, successor] : successors) {
    OpenEvent& old = ring->events[index];
    former.ids.push_back({old.id, ring->info.cpu, old.below});
    const auto watched = deliveries.find(old.id);
    if (former.plan.records_on(ring->info.cpu))
      written = written || watched == deliveries.end() || watched->second.delivery.ever_delivered();
    deliveries.erase(old.id);
    old = std::move(successor);
  }
  channel.plan.events[index] = std::move(next);
  if (index < channel.seen.size()) channel.seen[index] = false;
  // Readers need not know an event that has written nothing.
  if (written && !is_omitted(former.plan)) channel.former.push_back(std::move(former));
  if (channel.former.size() > kMaxOldIds) channel.former.erase(channel.former.begin());
  return {};
}

bool Recording::watch_delivery(const std::vector<CpuBusy>& busy, EventTime now_ns) {
  State& state = *state_;
  std::map<int, CpuBusy> busy_by_cpu;
  for (const CpuBusy& one : busy) busy_by_cpu[one.cpu] = one;
  std::vector<std::string> warnings;
  std::set<std::uint64_t> live;
  std::vector<std::string> unseen;
  bool replaced = false, judged = false, delivers = false, silent = false, sampled = false;
  for (OpenChannel& channel : state.channels) {
    state.look_for_unjudged(channel);
    for (std::string& one : state.unseen_of(channel)) unseen.push_back(std::move(one));
    sampled = sampled || std::find(channel.seen.begin(), channel.seen.end(), true) != channel.seen.end();
    // None of its CPUs is online: nothing can come.
    if (std::none_of(channel.rings.begin(), channel.rings.end(), [](const OpenRing& ring) { return ring.info.online; }))
      continue;
    for (std::size_t i = 0; i < channel.plan.events.size(); ++i) {
      const EventPlan& event = channel.plan.events[i];
      if (!is_judged(event)) continue;
      judged = true;
      std::vector<int> without, with;
      for (const OpenRing& ring : channel.rings) {
        const auto cpu = busy_by_cpu.find(ring.info.cpu);
        if (!ring.info.online || i >= ring.events.size() || !event.records_on(ring.info.cpu)) continue;
        live.insert(ring.events[i].id);
        // Without its time nothing is expected of the CPU; a sample still proves that the event delivers.
        const bool known = cpu != busy_by_cpu.end();
        if (state.on)
          state.look_at(ring, ring.events[i], event.attr, known ? cpu->second : CpuBusy{.cpu = ring.info.cpu}, now_ns);
        EventDelivery& delivery = state.deliveries[ring.events[i].id].delivery;
        if (!state.on || !known) delivery.interrupt();
        if (delivery.silent()) without.push_back(ring.info.cpu);
        if (delivery.delivers()) with.push_back(ring.info.cpu);
      }
      delivers = delivers || !with.empty();
      if (without.empty()) continue;
      if (with.empty() && state.replace_silent(channel, i, without)) {
        replaced = true;
        continue;
      }
      silent = silent || with.empty();
      warnings.push_back(fmt::format(
          "channel '{}': {} delivers no samples on {}, although {} busy: what ran there is missing",
          channel.plan.config.name, event.name, listed(without), without.size() == 1 ? "it was" : "they were"));
    }
  }
  std::erase_if(state.deliveries, [&](const auto& one) { return !live.contains(one.first); });
  const bool proven = judged ? delivers : sampled;
  state.delivery = proven ? Delivery::on : silent ? Delivery::silent : Delivery::unproven;
  state.unseen = std::move(unseen);
  const bool changed = replaced || warnings != state.delivery_warnings;
  state.delivery_warnings = std::move(warnings);
  if (changed) state.describe(state.manifest.generation + 1);
  return changed;
}

}  // namespace flight
