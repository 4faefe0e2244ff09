// SPDX-License-Identifier: Apache-2.0
// A sidecar in which every field has a different value.
#pragma once

#include "libcore/store/sidecar.hpp"

namespace flight {

inline Sidecar sample_sidecar() {
  Sidecar s;
  s.id = "42";
  s.path = "/s/flight-web3-20261120T031204.123Z-manual-42.perf.data";
  s.host = "web3";
  s.boot_id = "b";
  s.kernel = "6.1.0";
  s.kallsyms = "kallsyms-b-0123456789abcdef.zst";
  s.version = "0.1.0";
  s.config_digest = "0123456789abcdef";
  s.trigger = "lopsided";
  s.fired = SidecarFired{"cpu.lopsided", 93.5, 80, 12.25, 5, 2.5};
  s.reason = "why";
  s.requests = {{1000, 12, "flightctl", "2026-11-20T03:12:04.000Z", "slow"}};
  s.capture = "pause";
  s.compression = "zstd";
  s.size_bytes = 100;
  s.raw_bytes = 1000;
  s.samples = 7;
  s.window = {1'000'000'000, 3'500'000'000, 2.5, "2026-11-20T03:12:01.000Z", "2026-11-20T03:12:03.500Z"};
  s.common_window = {2'000'000'000, 3'500'000'000, 1.5, "2026-11-20T03:12:02.000Z", "2026-11-20T03:12:03.500Z"};
  s.blackout.max_us = 52.5;
  s.blackout.lost = 3;
  s.blackout.lost_exact = false;
  s.holes = {{"stacks", 1, 10, 20, 4}};
  s.rings = {{"stacks", 0, 2U << 20U, 1, 2, 9, 7, 52.5, 3, 40, 1}};
  s.tracker.processes = 5;
  s.tracker.exited = 2;
  s.tracker.stale = true;
  s.tracker.evicted = 1;
  s.tracker.lost = 9;
  s.tracker.unsure = 4;
  s.timings_us = {1, 2, 3, 4, 5, 15};
  s.top = {{.comm = "hog", .pid = 99, .cgroup = "/user.slice", .samples = 6, .share = 0.857, .cpus = {0, 1}}};
  s.warnings = {"one"};
  return s;
}

// The same with the fields that flightd 0.2 adds: units, programs and forks.
inline Sidecar ranked_sidecar() {
  Sidecar s = sample_sidecar();
  s.top_units = {{.name = "docker-0123456789ab",
                  .unit = "docker-x.scope",
                  .container = "0123456789abc",
                  .cgroup = "/system.slice/docker-x.scope",
                  .program = "worker",
                  .path = "/opt/worker",
                  .units = 1,
                  .processes = 24,
                  .pid = 98,
                  .comm = "worker-7",
                  .pid_share = 0.25,
                  .samples = 5,
                  .share = 0.75,
                  .share_before = 0.5,
                  .share_now = 1,
                  .cpus_before = 0.25,
                  .cpus_now = 1.5,
                  .cpus = {0, 1},
                  .forks_per_second = 12.5,
                  .forked_by = "sh"}};
  s.top_programs = {{.name = "hog", .program = "hog", .units = 2, .processes = 1, .pid = 99, .samples = 6}};
  s.forks = SidecarForks{.complete = false,
                         .all = {.count = 7500, .per_second = 3000, .per_second_before = 2, .per_second_now = 4500.5},
                         .by_unit = {{.name = "h.service",
                                      .unit = "h.service",
                                      .cgroup = "/system.slice/h.service",
                                      .count = 7400,
                                      .per_second = 2960}},
                         .by_program = {{.name = "sh", .unit = "h.service", .count = 7400}},
                         .by_pid = {{.name = "sh", .pid = 97, .unit = "h.service", .count = 7400}},
                         .unit_unknown = 100};
  return s;
}

}  // namespace flight
