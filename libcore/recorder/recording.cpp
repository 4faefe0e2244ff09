// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/recording.hpp"

#include <sys/ioctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "libcore/base/files.hpp"
#include "libcore/recorder/channel.hpp"
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

void warn_of_offline_cpus(const std::vector<int>& online, std::vector<std::string>& warnings) {
  const auto text = read_line("/sys/devices/system/cpu/present");
  const auto present = text ? parse_cpu_list(*text) : Result<std::vector<int>>(online);
  if (!present) return;
  std::vector<int> missing;
  std::set_difference(present->begin(), present->end(), online.begin(), online.end(), std::back_inserter(missing));
  if (!missing.empty())
    warnings.push_back(fmt::format("CPUs {} are offline: they are not recorded", format_cpu_list(missing)));
}

}  // namespace

struct Recording::State {
  KernelFeatures features;
  std::string boot_id;
  bool on = true;
  std::vector<std::string> cpu_warnings;
  std::vector<OpenRing> sideband;  // one for each CPU
  std::vector<OpenChannel> channels;
  Manifest manifest;  // of the two above

  [[nodiscard]] Result<void> open_sideband(const std::vector<int>& cpus);
  [[nodiscard]] std::vector<int> cpus() const;
  // In the manifest's order; `visit` gets each OpenRing.
  template <typename Visit>
  void for_each_ring(const Visit& visit) {
    for (OpenRing& ring : sideband) visit(ring);
    for (OpenChannel& channel : channels)
      for (OpenRing& ring : channel.rings) visit(ring);
  }
  void describe(const RecordingPlan& plan, const std::string& config_digest, std::uint64_t generation);
};

Result<void> Recording::State::open_sideband(const std::vector<int>& cpus) {
  for (const int cpu : cpus) {
    auto ring = open_sideband_ring(features, cpu);
    if (!ring && ring.error().errno_value() == ENODEV) {
      cpu_warnings.push_back(fmt::format("CPU {} went offline: it is not recorded", cpu));
      continue;
    }
    if (!ring) return pass(ring.error());
    sideband.push_back(std::move(*ring));
  }
  if (sideband.empty()) return fail(std::errc::no_such_device, "no CPU can be recorded");
  return {};
}

std::vector<int> Recording::State::cpus() const {
  std::vector<int> list;
  for (const OpenRing& ring : sideband) list.push_back(ring.info.cpu);
  return list;
}

void Recording::State::describe(const RecordingPlan& plan, const std::string& config_digest, std::uint64_t generation) {
  Manifest out;
  out.generation = generation;
  out.boot_id = boot_id;
  out.config_digest = config_digest;
  out.tracepoint_formats = plan.tracepoint_formats;
  out.header_page = plan.header_page;
  out.header_event = plan.header_event;
  out.lost_exact = features.format_lost;
  out.warnings = plan.warnings;
  out.warnings.insert(out.warnings.end(), cpu_warnings.begin(), cpu_warnings.end());

  out.events.push_back({.channel = {}, .name = "dummy", .attr = sideband_attr(features), .filter = {}, .ids = {}});
  for (const OpenRing& ring : sideband) {
    out.events[0].ids.push_back({ring.events[0].id, ring.info.cpu, static_cast<std::uint32_t>(out.rings.size())});
    out.rings.push_back(ring.info);
  }
  for (const OpenChannel& channel : channels) {
    out.warnings.insert(out.warnings.end(), channel.plan.warnings.begin(), channel.plan.warnings.end());
    out.warnings.insert(out.warnings.end(), channel.warnings.begin(), channel.warnings.end());
    const std::size_t first = out.events.size();
    for (const EventPlan& event : channel.plan.events)
      out.events.push_back({.channel = channel.plan.config.name,
                            .name = event.name,
                            .attr = event.attr,
                            .filter = event.filter,
                            .ids = {}});
    for (const OpenRing& ring : channel.rings) {
      const auto index = static_cast<std::uint32_t>(out.rings.size());
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

Result<Recording> Recording::open(const Config& config, const EventSources& sources, const KernelFeatures& features) {
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
  warn_of_offline_cpus(*cpus, state->cpu_warnings);
  const std::size_t fd_count = fds_needed(*plan, cpus->size());
  if (auto opened = state->open_sideband(*cpus); !opened) return explain(opened.error(), fd_count);
  for (const ChannelPlan& channel : plan->channels) {
    auto opened = OpenChannel::open(channel, features, state->cpus());
    if (!opened) return explain(opened.error(), fd_count);
    state->channels.push_back(std::move(*opened));
  }
  Recording recording(std::move(state));
  if (auto on = recording.enable_all(true); !on) return pass(on.error());
  recording.state_->describe(*plan, config.digest, 1);
  return recording;
}

Result<bool> Recording::reload(const Config& config, const EventSources& sources) {
  const std::vector<int> cpus = state_->cpus();
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
  state_->describe(*plan, config.digest, state_->manifest.generation + (changed ? 1 : 0));
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
