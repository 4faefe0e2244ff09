// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/plan.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>
#include <optional>

#include "libcore/base/kernel_file.hpp"
#include "libcore/base/units.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/config/memory_share.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/channel_cpus.hpp"
#include "libcore/recorder/locked_memory.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/recorder/stand_in.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight {
namespace {

// The whole budget: the channels' rings and their images in staging, the sideband's ring and each trigger's ring on
// every CPU, and the memory that is not for rings.
std::uint64_t needed_bytes(std::uint64_t channel_bytes, std::size_t cpu_count, std::uint64_t max_bytes,
                           std::uint64_t sideband_bytes, std::size_t triggers) {
  const std::uint64_t for_each_cpu = sideband_bytes + triggers * trigger_ring_bytes();
  const std::uint64_t beside = beside_rings_bytes(max_bytes);
  return 2 * channel_bytes + for_each_cpu * cpu_count + beside + checkpoint_file_bytes(beside);
}

// What samples with copied stacks write on a busy CPU in a second, as far as their rate is known.
std::uint64_t copied_bytes_a_second(const ChannelPlan& channel) {
  constexpr std::uint64_t kBesideStackBytes = 512;  // registers, callchain, fixed fields
  std::uint64_t bytes = 0;
  for (const EventPlan& event : channel.events)
    if (event.attr.sample_stack_user != 0 && event.attr.freq != 0)
      bytes += event.attr.sample_freq * (event.attr.sample_stack_user + kBesideStackBytes);
  return bytes;
}

// Copied stacks fill a ring a hundred times faster than callchains.
void warn_of_short_rings(const ChannelPlan& channel, std::vector<std::string>& warnings) {
  constexpr std::uint64_t kLeastSeconds = 3;  // they are read about once a second
  const std::uint64_t a_second = copied_bytes_a_second(channel);
  if (channel.ring_bytes >= kLeastSeconds * a_second) return;
  warnings.push_back(fmt::format(
      "channel '{}': its rings of {} hold {:.1f} s of samples with copied stacks on a busy CPU: make `ring` "
      "{}, or lower `frequency` or `stack_bytes`",
      channel.config.name, format_bytes(channel.ring_bytes),
      static_cast<double>(channel.ring_bytes) / static_cast<double>(a_second),
      format_bytes(std::bit_ceil(kLeastSeconds * a_second))));
}

void warn_of_budget(const Config& config, std::uint64_t max_bytes, std::size_t cpu_count, RecordingPlan& plan) {
  std::uint64_t channel_bytes = 0;
  for (const ChannelPlan& channel : plan.channels) {
    channel_bytes += channel.ring_bytes * most_rings(channel.cpus, cpu_count);
    if (channel.ring_bytes != channel.config.ring_bytes)
      plan.warnings.push_back(fmt::format(
          "memory.max is {}: the rings of channel '{}' have {} instead of {} on each CPU", format_bytes(max_bytes),
          channel.config.name, format_bytes(channel.ring_bytes), format_bytes(channel.config.ring_bytes)));
    warn_of_short_rings(channel, plan.warnings);
  }
  if (const std::uint64_t needed =
          needed_bytes(channel_bytes, cpu_count, max_bytes, plan.sideband_ring_bytes, plan.watched_triggers());
      needed > max_bytes && !config.channels.empty())
    plan.warnings.push_back(fmt::format(
        "memory.max is {}, but the smallest rings of {}, their staging and the programs need {}: raise memory.max",
        format_bytes(max_bytes), counted(cpu_count, "CPU"), format_bytes(needed)));
}

// An event with a frequency on any CPU keeps the tick on every nohz_full CPU (TICK_DEP_BIT_PERF_EVENTS). The timers of
// cpu-clock and task-clock have a constant rate (perf_swevent_init_hrtimer() in kernel/events/core.c).
bool keeps_tick(const perf_event_attr& attr) {
  const bool timer = attr.type == PERF_TYPE_SOFTWARE &&
                     (attr.config == PERF_COUNT_SW_CPU_CLOCK || attr.config == PERF_COUNT_SW_TASK_CLOCK);
  return attr.freq != 0 && !timer;
}

// `cpus`: those of the channel. If all of them refuse it, the machine's others need not.
std::optional<Refused> refused_in(const ChannelPlan& channel, const EventPlan& event, const std::vector<int>& cpus,
                                  const KernelFeatures& features) {
  auto refused = refused_on(event, cpus, features);
  if (refused && refused->cpus.empty() && !channel.cpus.empty()) refused->cpus = cpus;
  return refused;
}

// Adds one event, in whatever form it can be recorded. The result, if it is omitted: the error that says why.
Result<std::optional<Error>> add_event(const EventConfig& config, const EventSources& sources,
                                       const KernelFeatures& features, const std::vector<int>& cpus,
                                       const std::vector<int>& nohz_full, ChannelPlan& channel) {
  auto spec = parse_event(config.event, sources);
  if (!spec) return propagate(spec.error());
  if (!config.filter.empty() && !spec->is_tracepoint())
    return fail(std::errc::invalid_argument, "event {} has the filter '{}', but only tracepoints can be filtered",
                config.event, config.filter);
  EventPlan event = plan_event(*spec, config, sampling_options(config), features);
  std::optional<Refused> refused;
  if (spec->is_tracepoint()) {
    auto format = tracepoint_format(sources.tracefs, spec->system, spec->event);
    if (!format) return propagate(format.error());
    event.tracepoint = spec->system + ":" + spec->event;
    event.format = std::move(*format);
  } else if (spec->type == PERF_TYPE_HARDWARE && !nohz_full.empty() && keeps_tick(event.attr)) {
    event = cpu_clock_for(config, event, features,
                          {.why = fmt::format("{} would keep the timer tick on CPUs {} (nohz_full)", config.event,
                                              format_cpu_list(nohz_full)),
                           .expected = true});
  } else if (!spec->missing_pmu.empty()) {
    const Failure missing = fail(std::errc::no_such_file_or_directory,
                                 "event '{}': there is no PMU '{}' on this machine", config.event, spec->missing_pmu);
    refused = Refused{.error_number = ENOENT, .cpus = {}, .error = missing.value()};
    event.attr.precise_ip = 0;  // no other precision need be tried
  } else {
    refused = refused_in(channel, event, cpus, features);
  }
  if (refused) event = stand_in(config, event, cpus, features, *refused);
  leave_out(event, nohz_full);
  if (!nohz_full.empty() && keeps_tick(event.attr))
    channel.notes.push_back(
        fmt::format("channel '{}': {} has a frequency, which keeps the timer tick on CPUs {} (nohz_full): use a period",
                    channel.config.name, event.name, format_cpu_list(nohz_full)));
  channel.events.push_back(std::move(event));
  return is_omitted(channel.events.back()) ? std::optional(refused->error) : std::nullopt;
}

// `here`: the channels, their `cpus` as in ChannelCpus::here. Fails if an event is omitted and nothing else can be
// recorded: then it is the reason.
Result<void> add_channels(const Config& config, const std::vector<ChannelConfig>& here, const EventSources& sources,
                          const KernelFeatures& features, const std::vector<int>& cpus,
                          const std::vector<std::uint64_t>& ring_bytes, RecordingPlan& plan) {
  plan.nohz_full = nohz_full_cpus(sources.sysfs);
  std::optional<Failure> omitted;
  bool any = false;
  for (std::size_t i = 0; i < config.channels.size(); ++i) {
    ChannelPlan channel{
        .config = config.channels[i], .ring_bytes = ring_bytes[i], .events = {}, .notes = {}, .cpus = here[i].cpus};
    const std::vector<int> its_cpus = those_recorded(channel.cpus, cpus);
    for (std::size_t event = 0; event < channel.config.events.size(); ++event) {
      const std::string place = written_at(config, fmt::format("channels.{}.events[{}]", channel.config.name, event));
      const auto with_place = [&](const Error& error) {
        return wrap(error, "{}channel '{}'", place, channel.config.name);
      };
      const auto added = add_event(channel.config.events[event], sources, features, its_cpus, plan.nohz_full, channel);
      if (!added) return with_place(added.error());
      if (*added && !omitted) omitted = with_place(**added);
      channel.events.back().place = place;
    }
    for (std::size_t event = channel.events.size(); event-- > 0;) omit_repeated(channel, event, features);
    any = any || records_any(channel.events);
    plan.channels.push_back(std::move(channel));
  }
  if (omitted && !any) return *omitted;
  return {};
}

Result<EventPlan> plan_trigger_event(const EventConfig& config, const EventSources& sources,
                                     const KernelFeatures& features) {
  auto spec = parse_event(config.event, sources);
  if (!spec) return propagate(spec.error());
  if (!spec->is_tracepoint())
    return fail(std::errc::invalid_argument, "event {} is not a tracepoint, and a trigger needs a tracepoint",
                config.event);
  auto format = tracepoint_format(sources.tracefs, spec->system, spec->event);
  if (!format) return propagate(format.error());
  return EventPlan{.name = spec->name,
                   .attr = trigger_attr(*spec, features),
                   .filter = config.filter,
                   .tracepoint = spec->system + ":" + spec->event,
                   .format = std::move(*format)};
}

// If a shipped trigger is unavailable, that is not the administrator's error.
Result<void> add_triggers(const Config& config, const EventSources& sources, const KernelFeatures& features,
                          RecordingPlan& plan) {
  for (const TriggerConfig& trigger : config.triggers) {
    if (!trigger.event || !trigger.enabled) continue;
    auto event = plan_trigger_event(*trigger.event, sources, features);
    if (event) {
      if (!trigger.place.empty()) event->place = trigger.place + ": ";
      plan.triggers.push_back({.name = trigger.name, .event = std::move(*event), .off = {}});
      continue;
    }
    if (!trigger.shipped)
      return wrap(event.error(), "{}trigger '{}'", trigger.place.empty() ? "" : trigger.place + ": ", trigger.name);
    plan.notes.push_back(fmt::format("trigger '{}' is off: {}", trigger.name, event.error().what));
    plan.triggers.push_back({.name = trigger.name,
                             .event = {.name = trigger.event->event, .filter = trigger.event->filter},
                             .off = event.error().what});
  }
  return {};
}

Result<void> add_tracepoint_texts(const EventSources& sources, RecordingPlan& plan) {
  for (const ChannelPlan& channel : plan.channels)
    for (const EventPlan& event : channel.events)
      if (!event.tracepoint.empty()) plan.tracepoint_formats.emplace(event.tracepoint, event.format);
  if (plan.tracepoint_formats.empty()) return {};
  auto page = read_kernel_file(sources.tracefs + "/events/header_page");
  if (!page) return propagate(page.error());
  auto header = read_kernel_file(sources.tracefs + "/events/header_event");
  if (!header) return propagate(header.error());
  plan.header_page = std::move(*page);
  plan.header_event = std::move(*header);
  return {};
}

}  // namespace

std::size_t RecordingPlan::watched_triggers() const {
  return static_cast<std::size_t>(
      std::count_if(triggers.begin(), triggers.end(), [](const TriggerPlan& trigger) { return trigger.off.empty(); }));
}

std::uint64_t sideband_ring_bytes(std::uint64_t max_bytes, std::size_t cpu_count) {
  std::uint64_t bytes = kMostSidebandRingBytes;
  while (bytes > kLeastSidebandRingBytes && bytes * cpu_count > max_bytes / 8) bytes /= 2;
  return bytes;
}

std::vector<std::uint64_t> fit_rings(const std::vector<ChannelConfig>& channels, std::size_t cpu_count,
                                     std::uint64_t max_bytes, std::uint64_t sideband_bytes, std::size_t triggers) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(channels.size());
  for (const ChannelConfig& channel : channels) sizes.push_back(channel.ring_bytes);
  const auto channel_bytes = [&] {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < channels.size(); ++i) sum += sizes[i] * most_rings(channels[i].cpus, cpu_count);
    return sum;
  };
  while (needed_bytes(channel_bytes(), cpu_count, max_bytes, sideband_bytes, triggers) > max_bytes) {
    const auto largest = std::max_element(sizes.begin(), sizes.end());
    if (largest == sizes.end() || *largest <= kLeastRingBytes) break;
    *largest /= 2;
  }
  return sizes;
}

std::vector<std::string> format_fields(std::string_view format) {
  // Parses "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;"
  std::vector<std::string> fields;
  std::vector<std::string> common;
  constexpr std::string_view kField = "\tfield:";
  for (std::size_t at = format.find(kField); at != std::string_view::npos; at = format.find(kField, at + 1)) {
    const std::size_t begin = at + kField.size();
    std::string_view declaration = format.substr(begin, format.find(';', begin) - begin);
    if (const std::size_t bracket = declaration.rfind('[');
        bracket != std::string_view::npos && declaration.back() == ']')
      declaration = declaration.substr(0, bracket);
    const std::size_t blank = declaration.find_last_of(" *");
    const std::string name(blank == std::string_view::npos ? declaration : declaration.substr(blank + 1));
    if (!name.empty()) (name.rfind("common_", 0) == 0 ? common : fields).push_back(name);
  }
  fields.insert(fields.end(), common.begin(), common.end());
  return fields;
}

SamplingOptions sampling_options(const EventConfig& config) {
  return {.frequency = config.frequency,
          .period = config.period,
          .stack = config.stack,
          .max_stack = config.max_stack,
          .stack_bytes = config.stack_bytes};
}

EventPlan plan_event(const EventSpec& spec, const EventConfig& config, const SamplingOptions& options,
                     const KernelFeatures& features) {
  KernelFeatures all;
  all.max_stack = std::numeric_limits<std::uint16_t>::max();
  const perf_event_attr wanted = event_attr(spec, options, all);
  return {.name = spec.name,
          .attr = event_attr(spec, options, features),
          .filter = config.filter,
          .frequency = wanted.freq != 0 ? wanted.sample_freq : 0,
          .max_stack = wanted.sample_max_stack,
          .configured = config.event,
          .needs = spec.needs};
}

bool counts_while_busy(const perf_event_attr& attr) {
  // The upper half names the PMU of a machine with several kinds of CPU (PERF_TYPE_HARDWARE in perf_event.h).
  constexpr std::uint64_t kEventMask = 0xffffffff;
  const std::uint64_t event = attr.config & kEventMask;
  if (attr.type == PERF_TYPE_HARDWARE)
    return event == PERF_COUNT_HW_CPU_CYCLES || event == PERF_COUNT_HW_INSTRUCTIONS ||
           event == PERF_COUNT_HW_REF_CPU_CYCLES;
  return attr.type == PERF_TYPE_SOFTWARE && event == PERF_COUNT_SW_CPU_CLOCK;
}

void add_replaced_text(const ChannelPlan& channel, const EventPlan& event, std::vector<std::string>& warnings,
                       std::vector<std::string>& notes) {
  if (event.replaced.why.empty()) return;
  (event.replaced.expected ? notes : warnings)
      .push_back(replaced_text(channel.config.name, event.replaced.why, event.name));
}

std::string left_out_note(const ChannelPlan& channel) {
  const EventPlan* out = nullptr;
  for (const EventPlan& event : channel.events) {
    if (event.left_out.empty() && event.attr.freq != 0) return {};
    if (!event.left_out.empty()) out = &event;
  }
  if (out == nullptr) return {};
  const std::vector<int> missed = those_recorded(channel.cpus, out->left_out);
  if (missed.empty()) return {};
  return fmt::format(
      "channel '{}': {} does not sample CPUs {} (nohz_full), because its timer would interrupt them: configure "
      "cpu-clock itself to sample them, too",
      channel.config.name, out->name, format_cpu_list(missed));
}

Result<RecordingPlan> plan_recording(const Config& config, const EventSources& sources, const KernelFeatures& features,
                                     std::size_t cpu_count, const std::vector<int>& cpus) {
  RecordingPlan plan;
  const std::uint64_t max_bytes = config.memory_max.of(HostInfo::read().total_memory_kb * 1024);
  std::vector<ChannelConfig> here = config.channels;
  for (ChannelConfig& channel : here) {
    auto recorded = channel_cpus(config, channel, sources.sysfs);
    if (!recorded) return propagate(recorded.error());
    channel.cpus = std::move(recorded->here);
    if (!recorded->warning.empty()) plan.warnings.push_back(std::move(recorded->warning));
  }
  if (auto added = add_triggers(config, sources, features, plan); !added) return propagate(added.error());
  plan.sideband_ring_bytes = config.sideband_ring_bytes.value_or(sideband_ring_bytes(max_bytes, cpu_count));
  const auto sizes = fit_rings(here, cpu_count, max_bytes, plan.sideband_ring_bytes, plan.watched_triggers());
  if (auto added = add_channels(config, here, sources, features, cpus, sizes, plan); !added)
    return propagate(added.error());
  warn_of_budget(config, max_bytes, cpu_count, plan);
  if (const auto limit = locked_memory_limit(features, cpu_count)) fit_locked_memory(plan, cpu_count, *limit);
  if (auto added = add_tracepoint_texts(sources, plan); !added) return propagate(added.error());
  return plan;
}

}  // namespace flight
