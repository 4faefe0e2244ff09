// SPDX-License-Identifier: Apache-2.0
// The first step of a start (start.cpp), which --check-config takes alone: the configuration. Main thread only.
#pragma once

#include <sysexits.h>

#include <chrono>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"
#include "libcore/config/config_reader.hpp"
#include "libcore/sysinfo/worker_plan.hpp"

namespace flight::daemon {

inline constexpr int kFailed = 1;
inline constexpr int kBadConfig = EX_CONFIG;  // fails again until the configuration is corrected

struct StartFailure {
  Error error;
  int status = kFailed;  // of a flightd that was started by hand
};

// The configuration, as far as it can be checked without privileges.
struct Configured {
  Config config;
  std::vector<PlannedWorker> workers;
};
// Waits at most `patience` for its files.
[[nodiscard]] tl::expected<Configured, StartFailure> configure(ConfigReader& reader,
                                                               std::chrono::milliseconds patience);

}  // namespace flight::daemon
