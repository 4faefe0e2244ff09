// SPDX-License-Identifier: Apache-2.0
// A sidecar in which every field has a value of its own.
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
  s.version = "0.1.0";
  s.config_digest = "0123456789abcdef";
  s.trigger = "lopsided";
  s.fired = SidecarFired{"cpu.lopsided", 93.5, 80, 12.25, 5};
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
  s.ledger.processes = 5;
  s.ledger.exited = 2;
  s.ledger.stale = true;
  s.ledger.evicted = 1;
  s.timings_us = {1, 2, 3, 4, 5, 15};
  s.top = {{.comm = "hog", .pid = 99, .cgroup = "/user.slice", .samples = 6, .share = 0.857, .cpus = {0, 1}}};
  s.warnings = {"one"};
  return s;
}

}  // namespace flight
