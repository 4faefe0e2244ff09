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

  [[nodiscard]] bool is_tracepoint() const { return !system.empty(); }
};

// Where names are looked up; tests use other directories.
struct EventSources {
  std::string tracefs;  // empty: not mounted
  std::string sysfs = "/sys";
};

// ENOENT: no such event (the text names the nearest ones). EINVAL: the syntax is wrong. A tracepoint without
// a mounted tracefs is refused with how to mount it.
[[nodiscard]] Result<EventSpec> parse_event(std::string_view text, const EventSources& sources);

// Up to `most` of `candidates` that are similar to `name`, the nearest first (edit distance, common substrings).
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                                     std::size_t most = 3);

}  // namespace flight
