// SPDX-License-Identifier: Apache-2.0
// One event in perf's own syntax: generic hardware and software names ("cycles", "cpu-clock",
// "page-faults"), "rNNN", "pmu/term=value,…/", "SYSTEM:EVENT", and the modifiers u, k and p ("cycles:u").
// Parsing only reads sysfs and tracefs; it opens no event.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

// What must be there for the event. If it is not, that is a limit of the machine and no error of the configuration.
enum class Needs : std::uint8_t {
  nothing,    // a tracepoint, or a term of PMU software: one that is refused was named wrong
  kernel,     // a generic software event: an old kernel does not have each of them
  cpu_pmu,    // a counter of the CPUs
  other_pmu,  // uncore, power, IBS …
};

struct EventSpec {
  std::string name;          // as written; perf's reports show it
  std::uint32_t type = 0;    // perf_event_attr.type, PERF_TYPE_*
  std::uint64_t config = 0;  // perf_event_attr.config
  std::uint64_t config1 = 0;
  std::uint64_t config2 = 0;
  bool exclude_user = false;
  bool exclude_kernel = false;
  unsigned precise_ip = 0;
  std::string system;  // tracepoints only: "sched", "sched_switch"
  std::string event;
  Needs needs = Needs::nothing;
  std::string missing_pmu;  // the machine does not have this PMU, so the numbers above are not known

  [[nodiscard]] bool is_tracepoint() const { return !system.empty(); }
};

// Where names are looked up; tests use other directories.
struct EventSources {
  std::string tracefs;  // empty: not mounted
  std::string sysfs = "/sys";
};

// ENOENT: no such event (the text names the nearest ones). EINVAL: the syntax is wrong. A tracepoint without
// a mounted tracefs is refused with how to mount it. A PMU that other machines have is no error: `missing_pmu`.
[[nodiscard]] Result<EventSpec> parse_event(std::string_view text, const EventSources& sources);

// Up to `most` of `candidates` that are similar to `name`, the nearest first (edit distance, common substrings).
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                                     std::size_t most = 3);

}  // namespace flight
