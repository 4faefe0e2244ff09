// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/stand_in.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libcore/broker/protocol.hpp"
#include "libcore/recorder/channel.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kClockFrequency = 99;

// "u" of "cycles:up": cpu-clock accepts every modifier except p.
std::string plain_modifiers(const perf_event_attr& attr) {
  if (attr.exclude_user == attr.exclude_kernel) return {};
  return attr.exclude_kernel != 0 ? ":u" : ":k";
}

// "cycles:ppu" and "cpu/cycles/ppu" with another number of p.
std::string with_precision(const std::string& name, unsigned precise_ip) {
  const std::size_t end = name.find_last_of("/:") + 1;
  std::string head = name.substr(0, end);
  std::string modifiers = name.substr(end);
  std::erase(modifiers, 'p');
  modifiers.append(precise_ip, 'p');
  if (modifiers.empty() && head.ends_with(':')) head.pop_back();
  return head + modifiers;
}

// Nobody can correct that: the machine does not have it.
bool is_permanent(int error_number) { return error_number == ENOENT || error_number == EOPNOTSUPP; }

std::string on_cpus(const std::vector<int>& cpus) {
  return cpus.empty() ? "" : fmt::format(" on CPU{} {}", cpus.size() == 1 ? "" : "s", format_cpu_list(cpus));
}

Replaced why_refused(const EventPlan& event, const Refused& refused) {
  Replaced out{.why = {}, .expected = is_permanent(refused.error_number)};
  const std::string where = refused.cpus.empty() ? " on this machine" : on_cpus(refused.cpus);
  if (event.needs == Needs::kernel)
    out.why = fmt::format("this kernel does not have the event {}", event.configured);
  else if (refused.error_number == ENOENT)
    out.why = fmt::format("there is no hardware counter for {}{}", event.configured, where);
  else if (refused.error_number == EOPNOTSUPP)
    out.why = fmt::format("the hardware counter for {} cannot be sampled{}", event.configured, where);
  else
    out.why = fmt::format("the hardware counter for {} cannot be used{} ({})", event.configured, on_cpus(refused.cpus),
                          std::strerror(refused.error_number));
  return out;
}

EventPlan less_precise(EventPlan event, unsigned precise_ip, const Refused& refused) {
  event.replaced = {
      .why = fmt::format("precise_ip {} of {} is refused{} ({})", static_cast<unsigned>(event.attr.precise_ip),
                         event.configured, on_cpus(refused.cpus), std::strerror(refused.error_number)),
      .expected = is_permanent(refused.error_number)};
  event.name = with_precision(event.configured, precise_ip);
  event.attr.precise_ip = precise_ip & 3U;
  return event;
}

// A dummy writes nothing.
EventPlan nothing_for(const EventConfig& config, const EventPlan& event, const KernelFeatures& features, Replaced why) {
  EventSpec dummy;
  dummy.name = kOmittedEvent;
  dummy.type = PERF_TYPE_SOFTWARE;
  dummy.config = PERF_COUNT_SW_DUMMY;
  SamplingOptions options = sampling_options(config);
  options.frequency = 0;
  options.period = 1;
  EventPlan out = plan_event(dummy, config, options, features);
  out.place = event.place;
  out.needs = event.needs;
  out.replaced = std::move(why);
  return out;
}

// Its CPU went offline meanwhile: not even a dummy can be opened.
bool is_offline(int cpu, const KernelFeatures& features) {
  const auto dummy = open_event(owner_attr(features), cpu, "dummy");
  return !dummy && dummy.error().errno_value() == ENODEV;
}

bool same_recorded(const EventPlan& a, const EventPlan& b) {
  return a.name == b.name && std::memcmp(&a.attr, &b.attr, sizeof a.attr) == 0;
}

}  // namespace

bool is_limit_of_machine(Needs needs, int error_number) {
  switch (error_number) {
    case ENOENT:
      return needs != Needs::nothing;
    // The PMU refuses the event (perf_event_open(2)); with other PMUs than the CPUs' that is a wrong term, or one that
    // only counts, on each machine.
    case EINVAL:
      return needs == Needs::cpu_pmu;
    case EBUSY:
    case EIO:
    case ENODEV:
    case ENOSPC:
    case ENXIO:
    case EOPNOTSUPP:
      return needs == Needs::cpu_pmu || needs == Needs::other_pmu;
    default:  // a privilege (EACCES, EPERM), a resource of ours (EMFILE, ENFILE, ENOMEM), a fault of ours (E2BIG)
      return false;
  }
}

std::optional<Refused> refused_on(const EventPlan& event, const std::vector<int>& cpus,
                                  const KernelFeatures& features) {
  const bool stands_in = event.attr.type == PERF_TYPE_SOFTWARE && event.needs != Needs::kernel;
  if (stands_in || event.needs == Needs::nothing) return std::nullopt;
  std::optional<Refused> out;
  bool opened = false;
  for (const int cpu : cpus) {
    perf_event_attr attr = event.attr;
    const auto tried = open_within_limits(attr, cpu, event.name);
    if (tried && event.needs == Needs::kernel) return std::nullopt;  // each CPU has it
    opened = opened || tried;
    if (tried) continue;
    const int why = tried.error().errno_value();
    if (!is_limit_of_machine(event.needs, why)) return std::nullopt;
    if (why == ENODEV && is_offline(cpu, features)) continue;
    if (!out) out = Refused{.error_number = why, .cpus = {}, .error = tried.error()};
    if (is_permanent(out->error_number)) out->error_number = why;
    out->cpus.push_back(cpu);
  }
  if (out && !opened) out->cpus.clear();
  return out;
}

EventPlan cpu_clock_for(const EventConfig& config, const EventPlan& event, const KernelFeatures& features,
                        Replaced why) {
  EventSpec clock;
  clock.name = "cpu-clock" + plain_modifiers(event.attr);
  clock.type = PERF_TYPE_SOFTWARE;
  clock.config = PERF_COUNT_SW_CPU_CLOCK;
  clock.exclude_user = event.attr.exclude_user != 0;
  clock.exclude_kernel = event.attr.exclude_kernel != 0;
  SamplingOptions options = sampling_options(config);
  // cpu-clock's period would be in nanoseconds.
  if (options.period != 0)
    options = {.frequency = kClockFrequency,
               .stack = options.stack,
               .max_stack = options.max_stack,
               .stack_bytes = options.stack_bytes};
  EventPlan out = plan_event(clock, config, options, features);
  out.place = event.place;
  out.needs = event.needs;
  out.replaced = std::move(why);
  return out;
}

EventPlan stand_in(const EventConfig& config, const EventPlan& event, const std::vector<int>& cpus,
                   const KernelFeatures& features, Refused refused) {
  const Refused of_precision = refused;
  for (unsigned precise_ip = event.attr.precise_ip; precise_ip-- > 0;) {
    EventPlan next = less_precise(event, precise_ip, of_precision);
    auto again = refused_on(next, cpus, features);
    if (!again) return next;
    refused = std::move(*again);
    if (refused.cpus.empty()) refused.cpus = of_precision.cpus;  // they may not have been all that are recorded
  }
  Replaced why = why_refused(event, refused);
  if (event.needs == Needs::cpu_pmu) return cpu_clock_for(config, event, features, std::move(why));
  why.expected = false;  // what was configured is missing
  return nothing_for(config, event, features, std::move(why));
}

void leave_out(EventPlan& event, const std::vector<int>& nohz_full) {
  const bool clock = event.attr.type == PERF_TYPE_SOFTWARE && event.attr.config == PERF_COUNT_SW_CPU_CLOCK;
  if (clock && !event.replaced.why.empty()) event.left_out = nohz_full;
}

void omit_repeated(ChannelPlan& channel, std::size_t index, const KernelFeatures& features) {
  EventPlan& event = channel.events[index];
  if (event.replaced.why.empty() || is_omitted(event)) return;
  for (std::size_t i = 0; i < channel.events.size(); ++i) {
    const EventPlan& other = channel.events[i];
    if (i == index || !same_recorded(other, event)) continue;
    event = nothing_for(channel.config.events[index], event, features,
                        {.why = fmt::format("{}, and the channel already has {}", event.replaced.why, event.name),
                         .expected = event.replaced.expected});
    return;
  }
}

bool is_omitted(const EventPlan& event) { return !event.replaced.why.empty() && event.name == kOmittedEvent; }

bool records_any(const std::vector<EventPlan>& events) {
  return std::any_of(events.begin(), events.end(), [](const EventPlan& event) { return !is_omitted(event); });
}

int distance_from_configured(const EventPlan& event) {
  constexpr int kMostPrecise = 3;
  constexpr int kClock = kMostPrecise + 2;
  if (event.replaced.why.empty()) return 0;
  if (is_omitted(event)) return kClock + 1;
  return event.attr.type == PERF_TYPE_SOFTWARE ? kClock : 1 + kMostPrecise - static_cast<int>(event.attr.precise_ip);
}

}  // namespace flight
