// SPDX-License-Identifier: Apache-2.0
// What the Firefox profile has besides samples: markers of what happened, and counters of the metrics. Private to this
// module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/export/timed_samples.hpp"
#include "libcore/profile/sched.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

struct FirefoxMarker {
  std::string name, text;
  EventTime begin_ns = 0;
  std::optional<EventTime> end_ns;  // nullopt: a moment
};
inline constexpr std::size_t kMostFirefoxMarkers = 20'000;

// The firing, the requests, the stretches that are compared, holes, and the time that a CPU's ring does not have. In
// the order of time; at most kMostFirefoxMarkers.
[[nodiscard]] std::vector<FirefoxMarker> firefox_markers(const Sidecar& sidecar);

// Scheduling, where it is recorded: who was blocked and who waited for a CPU, and who ran on each CPU.
struct FirefoxSchedMarkers {
  std::vector<std::vector<FirefoxMarker>> of_threads;  // by the thread's number in the samples
  std::vector<FirefoxMarker> others;                   // of threads without samples
  std::vector<FirefoxMarker> cpus;                     // the name of each is its CPU
};
[[nodiscard]] FirefoxSchedMarkers firefox_sched_markers(const SchedProfile& sched, const TimedSamples& samples);

struct FirefoxCounter {
  std::string name;
  std::vector<std::pair<EventTime, double>> values;  // that are known, within the window
};
[[nodiscard]] std::vector<FirefoxCounter> firefox_counters(const Sidecar& sidecar);

}  // namespace flight
