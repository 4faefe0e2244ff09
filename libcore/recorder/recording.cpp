// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/recording.hpp"

#include <sys/ioctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "libcore/base/files.hpp"
#include "libcore/recorder/recording_state.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight {
namespace {

// EMFILE comes from wherever the limit was reached; what to do is the same.
Failure explain(Error error, std::size_t fd_count) {
  if (error.errno_value() == EMFILE || error.errno_value() == ENFILE) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    error.what += fmt::format(
        "; this configuration needs about {} descriptors, RLIMIT_NOFILE is {}: raise LimitNOFILE= "
        "in flightd-broker's unit (ulimit -n by hand), or record fewer events",
        fd_count, limit.rlim_cur);
  }
  return Failure(std::move(error));
}

std::size_t fds_needed(const RecordingPlan& plan, std::size_t cpu_count) {
  constexpr std::size_t kOthers = 32;
  std::size_t for_each_cpu = 1;
  for (const ChannelPlan& channel : plan.channels) for_each_cpu += 1 + channel.events.size();
  return for_each_cpu * cpu_count + kOthers;
}

// CPUs that have been offline ever since we began.
void warn_of_missing_cpus(const std::vector<OpenRing>& sideband, std::vector<std::string>& warnings) {
  const auto text = read_line("/sys/devices/system/cpu/present");
  const auto present = text ? parse_cpu_list(*text) : Result<std::vector<int>>(std::vector<int>{});
  if (!present) return;
  std::vector<int> missing;
  for (const int cpu : *present)
    if (std::none_of(sideband.begin(), sideband.end(), [&](const OpenRing& ring) { return ring.info.cpu == cpu; }))
      missing.push_back(cpu);
  if (!missing.empty())
    warnings.push_back(
        fmt::format("CPUs {} are offline: they are recorded when they come online", format_cpu_list(missing)));
}

void warn_of_gone_cpus(const std::vector<ManifestGap>& gaps, std::vector<std::string>& warnings) {
  const ClockPair clock = ClockPair::now();
  for (const ManifestGap& gap : gaps)
    if (gap.end_ns == 0)
      warnings.push_back(fmt::format("CPU {} went offline at about {}: its history ends there and is kept", gap.cpu,
                                     to_rfc3339(clock.wall_at(gap.begin_ns))));
}

}  // namespace

Result<void> Recording::State::open_sideband(const std::vector<int>& cpus) {
  for (const int cpu : cpus) {
    auto ring = open_sideband_ring(features, cpu);
    if (!ring && ring.error().errno_value() == ENODEV) continue;  // it went offline meanwhile
    if (!ring) return pass(ring.error());
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

void Recording::State::describe(std::uint64_t generation) {
  Manifest out;
  out.generation = generation;
  out.boot_id = boot_id;
  out.config_digest = config_digest;
  out.tracepoint_formats = plan.tracepoint_formats;
  out.header_page = plan.header_page;
  out.header_event = plan.header_event;
  out.lost_exact = features.format_lost;
  out.warnings = plan.warnings;
  out.gaps = gaps;
  warn_of_missing_cpus(sideband, out.warnings);
  warn_of_gone_cpus(gaps, out.warnings);
  out.warnings.insert(out.warnings.end(), cpu_errors.begin(), cpu_errors.end());

  out.events.push_back({.channel = {}, .name = "dummy", .attr = sideband_attr(features), .filter = {}, .ids = {}});
  for (const OpenRing& ring : sideband) {
    out.events[0].ids.push_back({ring.owner_id, ring.info.cpu, static_cast<std::uint32_t>(out.rings.size())});
    out.rings.push_back(ring.info);
  }
  for (const OpenChannel& channel : channels) {
    out.warnings.insert(out.warnings.end(), channel.plan.warnings.begin(), channel.plan.warnings.end());
    const std::size_t first = out.events.size();
    for (const EventPlan& event : channel.plan.events)
      out.events.push_back({.channel = channel.plan.config.name,
                            .name = event.name,
                            .attr = event.attr,
                            .filter = event.filter,
                            .ids = {}});
    for (const OpenRing& ring : channel.rings) {
      const auto index = static_cast<std::uint32_t>(out.rings.size());
      for (std::size_t i = 0; i < ring.old_ids.size(); ++i)
        for (const std::uint64_t id : ring.old_ids[i]) out.events[first + i].ids.push_back({id, ring.info.cpu, index});
      for (std::size_t i = 0; i < ring.events.size(); ++i)
        out.events[first + i].ids.push_back({ring.events[i].id, ring.info.cpu, index});
      out.rings.push_back(ring.info);
    }
  }
  manifest = std::move(out);
}

Recording::Recording(std::unique_ptr<State> state) : state_(std::move(state)) {}
Recording::Recording(Recording&&) noexcept = default;
Recording& Recording::operator=(Recording&&) noexcept = default;
Recording::~Recording() = default;

Result<Recording> Recording::open(const Config& config, const EventSources& sources, const KernelFeatures& features,
                                  const std::function<void(const Manifest&)>& before_enabling) {
  auto cpus = online_cpus();
  if (!cpus) return pass(cpus.error());
  if (cpus->empty()) return fail(std::errc::no_such_device, "sysfs names no CPU that is online");
  auto plan = plan_recording(config, sources, features, cpus->size(), cpus->front());
  if (!plan) return pass(plan.error());
  if ((1 + plan->channels.size()) * cpus->size() > kMaxRings)
    return fail(std::errc::argument_list_too_long, "{} channels on {} CPUs are more than {} rings",
                plan->channels.size(), cpus->size(), kMaxRings);

  auto state = std::make_unique<State>();
  state->features = features;
  state->boot_id = HostInfo::read().boot_id;
  const std::size_t fd_count = fds_needed(*plan, cpus->size());
  if (auto opened = state->open_sideband(*cpus); !opened) return explain(opened.error(), fd_count);
  for (const ChannelPlan& channel : plan->channels) {
    auto opened = OpenChannel::open(channel, features, state->cpus());
    if (!opened) return explain(opened.error(), fd_count);
    state->channels.push_back(std::move(*opened));
  }
  state->plan = std::move(*plan);
  state->config_digest = config.digest;
  Recording recording(std::move(state));
  if (before_enabling) {
    recording.state_->describe(0);
    before_enabling(recording.manifest());
  }
  if (auto on = recording.enable_all(true); !on) return pass(on.error());
  recording.state_->describe(1);
  return recording;
}

Result<std::vector<std::string>> Recording::check(const Config& config, const EventSources& sources) {
  auto cpus = online_cpus();
  if (!cpus) return pass(cpus.error());
  if (cpus->empty()) return fail(std::errc::no_such_device, "sysfs names no CPU that is online");
  const int cpu = cpus->front();
  const KernelFeatures features = KernelFeatures::probe(cpu);
  auto plan = plan_recording(config, sources, features, cpus->size(), cpu);
  if (!plan) return pass(plan.error());
  std::vector<std::string> warnings = std::move(plan->warnings);
  for (ChannelPlan& channel : plan->channels) {
    channel.ring_bytes = kLeastRingBytes;
    if (auto opened = OpenChannel::open(channel, features, {cpu}); !opened) return pass(opened.error());
    warnings.insert(warnings.end(), channel.warnings.begin(), channel.warnings.end());
  }
  return warnings;
}

Result<bool> Recording::reload(const Config& config, const EventSources& sources) {
  const std::vector<int> cpus = state_->cpus();
  if (cpus.empty()) return fail(std::errc::no_such_device, "no CPU can be recorded");
  auto plan = plan_recording(config, sources, state_->features, cpus.size(), cpus.front());
  if (!plan) return pass(plan.error());
  if ((1 + plan->channels.size()) * cpus.size() > kMaxRings)
    return fail(std::errc::argument_list_too_long, "{} channels on {} CPUs are more than {} rings",
                plan->channels.size(), cpus.size(), kMaxRings);

  // First all that can fail: what is new is opened and enabled beside the old.
  std::vector<OpenChannel> next;
  std::vector<std::size_t> kept;  // for each of `next`: its index in channels, or kNew
  constexpr std::size_t kNew = SIZE_MAX;
  for (const ChannelPlan& channel : plan->channels) {
    const auto same = std::find_if(state_->channels.begin(), state_->channels.end(),
                                   [&](const OpenChannel& old) { return old.plan.same_as(channel); });
    if (same != state_->channels.end()) {
      kept.push_back(static_cast<std::size_t>(same - state_->channels.begin()));
      next.emplace_back();
      continue;
    }
    auto opened = OpenChannel::open(channel, state_->features, cpus);
    if (!opened) return explain(opened.error(), fds_needed(*plan, cpus.size()));
    for (OpenRing& ring : opened->rings)
      if (state_->on)
        if (auto on = ring.enable(); !on) return pass(on.error());
    kept.push_back(kNew);
    next.push_back(std::move(*opened));
  }

  bool changed = next.size() != state_->channels.size();
  for (std::size_t i = 0; i < next.size(); ++i) {
    changed = changed || kept[i] != i;
    if (kept[i] != kNew) next[i] = std::move(state_->channels[kept[i]]);
  }
  state_->channels = std::move(next);
  state_->plan = std::move(*plan);
  state_->config_digest = config.digest;
  state_->describe(state_->manifest.generation + (changed ? 1 : 0));
  return changed;
}

const Manifest& Recording::manifest() const { return state_->manifest; }

std::vector<int> Recording::owner_fds() const {
  std::vector<int> fds;
  state_->for_each_ring([&](const OpenRing& ring) { fds.push_back(ring.owner_fd()); });
  return fds;
}

Counts Recording::counts() const {
  Counts counts;
  counts.time_ns = monotonic_now();
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
  // The sideband first: a sample's process should be known.
  state_->for_each_ring([&](OpenRing& ring) {
    auto done = on ? ring.enable() : ring.disable();
    if (!done && first) first = std::move(done);
  });
  state_->on = on;
  // A ring that a reload made while recording was off has been enabled only now.
  std::size_t index = 0;
  state_->for_each_ring([&](const OpenRing& ring) {
    if (index < state_->manifest.rings.size()) state_->manifest.rings[index++].enabled_ns = ring.info.enabled_ns;
  });
  return first;
}

}  // namespace flight
