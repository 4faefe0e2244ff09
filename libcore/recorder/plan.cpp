// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/plan.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>

#include "libcore/base/files.hpp"
#include "libcore/base/units.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/config/memory_share.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/channel.hpp"
#include "libcore/recorder/locked_memory.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kFallbackFrequency = 99;

// The whole budget: each channel's ring and its image in staging, the sideband's ring and each trigger's ring on every
// CPU, and the memory that is not for rings.
std::uint64_t needed_bytes(const std::vector<std::uint64_t>& ring_bytes, std::size_t cpu_count, std::uint64_t max_bytes,
                           std::uint64_t sideband_bytes, std::size_t triggers) {
  std::uint64_t for_each_cpu = sideband_bytes + triggers * trigger_ring_bytes();
  for (const std::uint64_t bytes : ring_bytes) for_each_cpu += 2 * bytes;
  const std::uint64_t beside = beside_rings_bytes(max_bytes);
  return for_each_cpu * cpu_count + beside + checkpoint_file_bytes(beside);
}

void warn_of_budget(const Config& config, std::uint64_t max_bytes, std::size_t cpu_count, RecordingPlan& plan) {
  std::vector<std::uint64_t> sizes;
  for (const ChannelPlan& channel : plan.channels) {
    sizes.push_back(channel.ring_bytes);
    if (channel.ring_bytes != channel.config.ring_bytes)
      plan.warnings.push_back(fmt::format(
          "memory.max is {}: the rings of channel '{}' have {} instead of {} on each CPU", format_bytes(max_bytes),
          channel.config.name, format_bytes(channel.ring_bytes), format_bytes(channel.config.ring_bytes)));
  }
  if (const std::uint64_t needed =
          needed_bytes(sizes, cpu_count, max_bytes, plan.sideband_ring_bytes, plan.watched_triggers());
      needed > max_bytes && !config.channels.empty())
    plan.warnings.push_back(fmt::format(
        "memory.max is {}, but the smallest rings of {}, their staging and the programs need {}: raise memory.max",
        format_bytes(max_bytes), counted(cpu_count, "CPU"), format_bytes(needed)));
}

SamplingOptions sampling_options(const EventConfig& config) {
  return {.frequency = config.frequency, .period = config.period, .stack = config.stack, .max_stack = config.max_stack};
}

// "u" of "cycles:up": cpu-clock accepts every modifier except p.
std::string plain_modifiers(const EventSpec& spec) {
  if (spec.exclude_user == spec.exclude_kernel) return {};
  return spec.exclude_kernel ? ":u" : ":k";
}

bool is_hardware(std::uint32_t type) {
  return type != PERF_TYPE_SOFTWARE && type != PERF_TYPE_TRACEPOINT && type != PERF_TYPE_BREAKPOINT;
}

// What the configuration asks for, whatever the machine allows.
void set_wanted(EventPlan& plan, const EventSpec& spec, const SamplingOptions& options) {
  KernelFeatures all;
  all.max_stack = std::numeric_limits<std::uint16_t>::max();
  const perf_event_attr wanted = event_attr(spec, options, all);
  plan.frequency = wanted.freq != 0 ? wanted.sample_freq : 0;
  plan.max_stack = wanted.sample_max_stack;
}

EventPlan cpu_clock_for(const EventConfig& config, const EventSpec& spec, const KernelFeatures& features,
                        Replaced why) {
  EventSpec clock;
  clock.name = "cpu-clock" + plain_modifiers(spec);
  clock.type = PERF_TYPE_SOFTWARE;
  clock.config = PERF_COUNT_SW_CPU_CLOCK;
  clock.exclude_user = spec.exclude_user;
  clock.exclude_kernel = spec.exclude_kernel;
  SamplingOptions options = sampling_options(config);
  // cpu-clock's period would be in nanoseconds.
  if (options.period != 0)
    options = {.frequency = kFallbackFrequency, .stack = options.stack, .max_stack = options.max_stack};
  EventPlan out{.name = clock.name,
                .attr = event_attr(clock, options, features),
                .filter = {},
                .tracepoint = {},
                .format = {},
                .configured = config.event,
                .replaced = std::move(why)};
  set_wanted(out, clock, options);
  return out;
}

bool has_equal(const std::vector<EventPlan>& events, const EventPlan& event) {
  return std::any_of(events.begin(), events.end(), [&](const EventPlan& other) {
    return other.name == event.name && std::memcmp(&other.attr, &event.attr, sizeof event.attr) == 0;
  });
}

// A list of CPUs; empty: there are none.
std::string nohz_full_cpus(const std::string& sysfs) {
  const auto text = read_line(sysfs + "/devices/system/cpu/nohz_full");
  const auto cpus = text ? parse_cpu_list(*text) : Result<std::vector<int>>(std::vector<int>{});
  return cpus && !cpus->empty() ? format_cpu_list(*cpus) : "";  // "(null)" without nohz_full=
}

// An event with a frequency on any CPU keeps the tick on every nohz_full CPU (TICK_DEP_BIT_PERF_EVENTS). The timers of
// cpu-clock and task-clock have a constant rate (perf_swevent_init_hrtimer() in kernel/events/core.c).
bool keeps_tick(const perf_event_attr& attr) {
  const bool timer = attr.type == PERF_TYPE_SOFTWARE &&
                     (attr.config == PERF_COUNT_SW_CPU_CLOCK || attr.config == PERF_COUNT_SW_TASK_CLOCK);
  return attr.freq != 0 && !timer;
}

// Why cpu-clock must take the place of this hardware event on all CPUs; nullopt: it can be recorded. It is opened on
// each of `cpus`, as a test: another user may hold the counter of one CPU only.
std::optional<Replaced> why_replaced(const EventConfig& config, const EventPlan& event, const std::vector<int>& cpus,
                                     const std::string& nohz_full) {
  if (!nohz_full.empty() && keeps_tick(event.attr))
    return Replaced{.why = fmt::format("{} would keep the timer tick on CPUs {} (nohz_full)", config.event, nohz_full),
                    .expected = true};
  std::vector<int> refusing;
  int why = 0;
  bool opened = false;
  for (const int cpu : cpus) {
    perf_event_attr attr = event.attr;
    const auto tried = open_within_limits(attr, cpu, event.name);
    opened = opened || tried;
    if (tried) continue;
    if (!may_replace(event.attr, tried.error().errno_value())) return std::nullopt;
    if (opened && tried.error().errno_value() == ENODEV) continue;  // it went offline meanwhile
    why = tried.error().errno_value();
    refusing.push_back(cpu);
    if (!opened && (why == ENOENT || why == EOPNOTSUPP))
      return Replaced{.why = fmt::format("there is no hardware counter for {} on this machine", config.event),
                      .expected = true};
  }
  if (refusing.empty()) return std::nullopt;
  return Replaced{.why = refused_text(config.event, opened ? refusing : std::vector<int>{}, why)};
}

// Hardware events that cannot be recorded are replaced by cpu-clock.
Result<void> add_event(const EventConfig& config, const EventSources& sources, const KernelFeatures& features,
                       const std::vector<int>& cpus, const std::string& nohz_full, ChannelPlan& channel) {
  auto spec = parse_event(config.event, sources);
  if (!spec) return propagate(spec.error());
  if (!config.filter.empty() && !spec->is_tracepoint())
    return fail(std::errc::invalid_argument, "event {} has the filter '{}', but only tracepoints can be filtered",
                config.event, config.filter);
  EventPlan event{.name = spec->name,
                  .attr = event_attr(*spec, sampling_options(config), features),
                  .filter = config.filter,
                  .tracepoint = {},
                  .format = {},
                  .configured = config.event};
  set_wanted(event, *spec, sampling_options(config));
  if (spec->is_tracepoint()) {
    auto format = tracepoint_format(sources.tracefs, spec->system, spec->event);
    if (!format) return propagate(format.error());
    event.tracepoint = spec->system + ":" + spec->event;
    event.format = std::move(*format);
  } else if (is_hardware(spec->type)) {
    if (auto replaced = why_replaced(config, event, cpus, spec->type == PERF_TYPE_HARDWARE ? nohz_full : "")) {
      event = cpu_clock_for(config, *spec, features, std::move(*replaced));
      if (has_equal(channel.events, event)) {
        channel.notes.push_back(fmt::format("channel '{}': {}, and the channel already has {}: it is omitted",
                                            channel.config.name, event.replaced.why, event.name));
        return {};
      }
    }
  }
  if (!nohz_full.empty() && keeps_tick(event.attr))
    channel.notes.push_back(
        fmt::format("channel '{}': {} has a frequency, which keeps the timer tick on CPUs {} (nohz_full): use a period",
                    channel.config.name, event.name, nohz_full));
  channel.events.push_back(std::move(event));
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
  auto page = read_file(sources.tracefs + "/events/header_page");
  if (!page) return propagate(page.error());
  auto header = read_file(sources.tracefs + "/events/header_event");
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
  while (needed_bytes(sizes, cpu_count, max_bytes, sideband_bytes, triggers) > max_bytes) {
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

bool may_replace(const perf_event_attr& attr, int error_number) {
  if (attr.type == PERF_TYPE_HARDWARE)
    for (const int one : {ENOENT, EOPNOTSUPP, EINVAL, ENODEV, ENOSPC})
      if (error_number == one) return true;
  return is_hardware(attr.type) && error_number == EBUSY;
}

std::string refused_text(const std::string& event, const std::vector<int>& cpus, int error_number) {
  const std::string where =
      cpus.empty() ? "" : fmt::format(" on CPU{} {}", cpus.size() == 1 ? "" : "s", format_cpu_list(cpus));
  return fmt::format("the hardware counter for {} cannot be used{} ({})", event, where, std::strerror(error_number));
}

EventPlan plan_cpu_clock(const EventConfig& config, const perf_event_attr& attr, const KernelFeatures& features,
                         Replaced why) {
  EventSpec spec;
  spec.exclude_user = attr.exclude_user != 0;
  spec.exclude_kernel = attr.exclude_kernel != 0;
  return cpu_clock_for(config, spec, features, std::move(why));
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

void tell_replaced(const ChannelPlan& channel, const EventPlan& event, std::vector<std::string>& warnings,
                   std::vector<std::string>& notes) {
  if (event.replaced.why.empty()) return;
  (event.replaced.expected ? notes : warnings)
      .push_back(replaced_text(channel.config.name, event.replaced.why, event.name));
}

Result<RecordingPlan> plan_recording(const Config& config, const EventSources& sources, const KernelFeatures& features,
                                     std::size_t cpu_count, const std::vector<int>& cpus) {
  RecordingPlan plan;
  const std::uint64_t max_bytes = config.memory_max.of(HostInfo::read().total_memory_kb * 1024);
  if (auto added = add_triggers(config, sources, features, plan); !added) return propagate(added.error());
  plan.sideband_ring_bytes = config.sideband_ring_bytes.value_or(sideband_ring_bytes(max_bytes, cpu_count));
  const auto sizes =
      fit_rings(config.channels, cpu_count, max_bytes, plan.sideband_ring_bytes, plan.watched_triggers());
  const std::string nohz_full = nohz_full_cpus(sources.sysfs);
  for (std::size_t i = 0; i < config.channels.size(); ++i) {
    ChannelPlan channel{.config = config.channels[i], .ring_bytes = sizes[i], .events = {}, .notes = {}};
    for (std::size_t event = 0; event < channel.config.events.size(); ++event) {
      const std::string place = written_at(config, fmt::format("channels.{}.events[{}]", channel.config.name, event));
      if (auto added = add_event(channel.config.events[event], sources, features, cpus, nohz_full, channel); !added)
        return wrap(added.error(), "{}channel '{}'", place, channel.config.name);
      channel.events.back().place = place;
    }
    plan.channels.push_back(std::move(channel));
  }
  warn_of_budget(config, max_bytes, cpu_count, plan);
  if (const auto limit = locked_memory_limit(features, cpu_count)) fit_locked_memory(plan, cpu_count, *limit);
  if (auto added = add_tracepoint_texts(sources, plan); !added) return propagate(added.error());
  return plan;
}

}  // namespace flight
