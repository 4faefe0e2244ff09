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

struct FirefoxCounter {
  std::string name;
  std::vector<std::pair<EventTime, double>> values;  // that are known, within the window
};
[[nodiscard]] std::vector<FirefoxCounter> firefox_counters(const Sidecar& sidecar);

}  // namespace flight
