// SPDX-License-Identifier: Apache-2.0
// Makes the manifest, again after each change.
#include <algorithm>

#include "libcore/base/kernel_file.hpp"
#include "libcore/base/version.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/recorder/recording_state.hpp"
#include "libcore/recorder/stand_in.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

ManifestRing to_manifest(const OpenRing& ring) {
  ManifestRing out = ring.info;
  out.live_ids.clear();
  for (const OpenEvent& event : ring.events) out.live_ids.push_back(event.id);
  return out;
}

ManifestEvent to_manifest(const std::string& channel, const EventPlan& event) {
  return {.channel = channel,
          .name = event.name,
          .attr = event.attr,
          .filter = event.filter,
          .ids = {},
          .frequency = event.frequency,
          .max_stack = event.max_stack,
          .configured = event.configured,
          .why = event.replaced.why,
          .expected = event.replaced.expected,
          .left_out = event.left_out};
}

bool any_records_on(const std::vector<OpenChannel>& channels, int cpu) {
  return std::any_of(channels.begin(), channels.end(),
                     [cpu](const OpenChannel& channel) { return channel.plan.config.records_on(cpu); });
}

// CPUs that have been offline since the start, except those that no channel records.
void note_missing_cpus(const std::vector<OpenRing>& sideband, const std::vector<OpenChannel>& channels,
                       std::vector<std::string>& notes) {
  const auto text = read_kernel_file("/sys/devices/system/cpu/present");
  const auto present = text ? parse_cpu_list(*text) : Result<std::vector<int>>(std::vector<int>{});
  if (!present) return;
  std::vector<int> missing;
  for (const int cpu : *present)
    if (any_records_on(channels, cpu) &&
        std::none_of(sideband.begin(), sideband.end(), [&](const OpenRing& ring) { return ring.info.cpu == cpu; }))
      missing.push_back(cpu);
  if (!missing.empty())
    notes.push_back(
        fmt::format("CPUs {} are offline: they are recorded when they come online", format_cpu_list(missing)));
}

void note_gone_cpus(const std::vector<ManifestGap>& gaps, const std::vector<OpenChannel>& channels,
                    std::vector<std::string>& notes) {
  for (const ManifestGap& gap : gaps)
    if (gap.end_ns == 0 && any_records_on(channels, gap.cpu)) notes.push_back(gone_cpu_text(gap.cpu));
}

// Limits of the kernel under which an event records less than configured, on any CPU.
void warn_of_limits(const OpenChannel& channel, std::size_t index, const KernelFeatures& features,
                    std::vector<std::string>& warnings) {
  const EventPlan& event = channel.plan.events[index];
  if (is_omitted(event)) return;
  std::uint64_t frequency = event.attr.freq != 0 ? event.attr.sample_freq : 0;
  std::uint16_t max_stack = event.attr.sample_max_stack;
  for (const OpenRing& ring : channel.rings) {
    if (index >= ring.events.size()) continue;
    const OpenEvent& open = ring.events[index];
    if (open.below.frequency != 0) frequency = std::min(frequency, open.below.frequency);
    if (open.below.max_stack != 0) max_stack = std::min(max_stack, open.below.max_stack);
  }
  if (event.attr.freq != 0 && frequency < event.frequency)
    warnings.push_back(fmt::format(
        "channel '{}': {} is sampled {} times a second instead of {}: sysctl kernel.perf_event_max_sample_rate was "
        "lower when it was opened; the kernel lowers it when sampling takes too much time",
        channel.plan.config.name, event.name, frequency, event.frequency));
  if (channel.plan.config.events[index].stack_bytes != 0 && event.attr.sample_stack_user == 0)
    warnings.push_back(fmt::format(
        "channel '{}': stacks of {} are by frame pointers only: this kernel can crash if samples of all processes copy "
        "stacks; Linux 6.16, 6.15.4, 6.12.35, 6.6.95, 6.1.142, 5.15.186 and 5.10.239 have the correction",
        channel.plan.config.name, event.name));
  if (max_stack < event.max_stack)
    warnings.push_back(
        fmt::format("channel '{}': stacks of {} have at most {} frames instead of {}: sysctl "
                    "kernel.perf_event_max_stack was lower when it was opened",
                    channel.plan.config.name, event.name, max_stack, event.max_stack));
  // The kernel refuses a change while such an event is open (EBUSY), so this stays true.
  constexpr std::uint16_t kBoth = 2;  // the kernel's part of a stack, and the program's
  if ((event.attr.sample_type & PERF_SAMPLE_CALLCHAIN) != 0 && features.max_contexts < kBoth)
    warnings.push_back(fmt::format(
        "channel '{}': stacks of {} {}: sysctl kernel.perf_event_max_contexts_per_stack is {}; stop flightd, "
        "set it to 8, and start flightd",
        channel.plan.config.name, event.name,
        features.max_contexts == 0 ? "are empty" : "end where the kernel was entered", features.max_contexts));
}

}  // namespace

void Recording::State::describe(std::uint64_t generation) {
  Manifest out;
  out.generation = generation;
  // The first CPU's sideband is opened first and closed last.
  out.recording = sideband.front().info.owner_id;
  out.version = kVersion;
  out.boot_id = boot_id;
  out.config_digest = config_digest;
  out.tracepoint_formats = plan.tracepoint_formats;
  out.header_page = plan.header_page;
  out.header_event = plan.header_event;
  out.lost_exact = features.format_lost;
  out.warnings = notes;
  out.warnings.insert(out.warnings.end(), plan.warnings.begin(), plan.warnings.end());
  out.gaps = gaps;
  out.notes = plan.notes;
  note_missing_cpus(sideband, channels, out.notes);
  note_gone_cpus(gaps, channels, out.notes);
  out.missing = cpu_errors;
  out.missing.insert(out.missing.end(), delivery_warnings.begin(), delivery_warnings.end());
  for (const std::string& error : cpu_errors)
    out.warnings.push_back(error + "; flightd-broker tries again every second");
  out.warnings.insert(out.warnings.end(), delivery_warnings.begin(), delivery_warnings.end());

  out.events.push_back({.channel = {}, .name = "dummy", .attr = sideband_attr(features), .filter = {}, .ids = {}});
  for (const OpenRing& ring : sideband) {
    const auto index = static_cast<std::uint32_t>(out.rings.size());
    const auto add = [&](std::uint64_t id) {
      if (id != ring.info.owner_id) out.events[0].ids.push_back({id, ring.info.cpu, index});
    };
    out.events[0].ids.push_back({ring.info.owner_id, ring.info.cpu, index});
    // A CPU that returned has another event, and the ring may still have records of those before.
    for (const auto& ids : ring.old_ids)
      for (const OldId& old : ids) add(old.id);
    for (const OpenEvent& event : ring.events) add(event.id);
    out.rings.push_back(to_manifest(ring));
  }
  for (const OpenChannel& channel : channels) {
    const ChannelPlan& planned = channel.plan;
    if (!planned.config.cpus.empty())
      out.channels.push_back({.name = planned.config.name, .cpus = planned.config.cpus, .recorded = planned.cpus});
    out.notes.insert(out.notes.end(), channel.plan.notes.begin(), channel.plan.notes.end());
    if (const std::string note = left_out_note(channel.plan); !note.empty()) {
      out.notes.push_back(note);
      out.missing.push_back(note);
    }
    const std::size_t first = out.events.size();
    for (std::size_t i = 0; i < channel.plan.events.size(); ++i) {
      out.events.push_back(to_manifest(channel.plan.config.name, channel.plan.events[i]));
      add_replaced_text(channel.plan, channel.plan.events[i], out.warnings, out.notes);
      warn_of_limits(channel, i, features, out.warnings);
    }
    for (const OpenRing& ring : channel.rings) {
      const auto index = static_cast<std::uint32_t>(out.rings.size());
      for (std::size_t i = 0; i < ring.old_ids.size(); ++i)
        for (const OldId& old : ring.old_ids[i])
          out.events[first + i].ids.push_back({old.id, ring.info.cpu, index, old.below});
      for (std::size_t i = 0; i < ring.events.size(); ++i)
        out.events[first + i].ids.push_back({ring.events[i].id, ring.info.cpu, index, ring.events[i].below});
      out.rings.push_back(to_manifest(ring));
    }
    for (const FormerEvent& former : channel.former) {
      out.events.push_back(to_manifest(channel.plan.config.name, former.plan));
      out.events.back().closed = true;
      for (const FormerEvent::Id& id : former.ids)
        for (std::uint32_t ring = 0; ring < out.rings.size(); ++ring)
          if (out.rings[ring].kind == RingKind::channel && out.rings[ring].channel == channel.plan.config.name &&
              out.rings[ring].cpu == id.cpu)
            out.events.back().ids.push_back({id.id, id.cpu, ring, id.below});
    }
  }
  for (const OpenTrigger& trigger : triggers) {
    const TriggerPlan& planned = trigger.plan;
    out.triggers.push_back({.name = planned.name,
                            .event = planned.event.name,
                            .filter = planned.event.filter,
                            .format = planned.event.format,
                            .off = planned.off});
    for (const OpenRing& ring : trigger.rings) out.rings.push_back(to_manifest(ring));
  }
  manifest = std::move(out);
}

}  // namespace flight
