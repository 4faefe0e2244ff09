// SPDX-License-Identifier: Apache-2.0
// What is recorded in the place of an event that this machine refuses: a limit of the machine must not end the
// recording of anything else. An event always has its place in its channel, so a later try finds it again.
//
//   the machine refuses                          in its place
//   the precision of the address (cycles:ppp)    the same event, less precise
//   a counter of the CPUs, in any spelling       cpu-clock; nothing if the channel has the same cpu-clock anyway
//   another PMU, a newer kernel's software event nothing: kOmittedEvent, and a warning that names it
//
// A cpu-clock in the place of another event leaves out CPUs that run without a timer tick (leave_out()).
//
// Everything else is an error: the configuration is wrong, or this process lacks a privilege or a resource.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/recorder/plan.hpp"

namespace flight {

// Whether perf_event_open(2) fails with this error because the machine does not have what the event needs, or cannot
// give it (a hypervisor refuses it, another user holds it).
[[nodiscard]] bool is_limit_of_machine(Needs needs, int error_number);

struct Refused {
  int error_number = 0;
  std::vector<int> cpus;  // those that refuse it; empty: all
  Error error;            // of the first of them
};
// Opens the event on each of `cpus`, as a test: another user may hold the counter of one CPU only, and a PMU may belong
// to some CPUs. nullopt: it can be recorded, or opening it fails for another reason than the machine.
[[nodiscard]] std::optional<Refused> refused_on(const EventPlan& event, const std::vector<int>& cpus,
                                                const KernelFeatures& features);

// What is recorded in the place of `event`, which is of `config`. `cpus`: those that must open it.
[[nodiscard]] EventPlan stand_in(const EventConfig& config, const EventPlan& event, const std::vector<int>& cpus,
                                 const KernelFeatures& features, Refused refused);
// cpu-clock, with the modifiers of `event` and the rate of `config`.
[[nodiscard]] EventPlan cpu_clock_for(const EventConfig& config, const EventPlan& event, const KernelFeatures& features,
                                      Replaced why);
// A cpu-clock that nobody configured is not recorded on CPUs that run without a timer tick: its timer would interrupt
// them.
void leave_out(EventPlan& event, const std::vector<int>& nohz_full);
// Omits the stand-in `index` if the channel has the same event anyway: its samples would count twice.
void omit_repeated(ChannelPlan& channel, std::size_t index, const KernelFeatures& features);

[[nodiscard]] bool is_omitted(const EventPlan& event);
[[nodiscard]] bool records_any(const std::vector<EventPlan>& events);
// How far a plan is from what is configured; 0: it is that.
[[nodiscard]] int distance_from_configured(const EventPlan& event);

}  // namespace flight
