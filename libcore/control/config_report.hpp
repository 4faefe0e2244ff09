// SPDX-License-Identifier: Apache-2.0
// The replies of Reload and GetConfig, written and read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

// The uses of memory. `program`: what flightd, flightd-broker and the checkpoint may use. `max`: memory.max, `ram`: the
// machine's memory.
struct ConfigMemory {
  std::uint64_t ring_bytes = 0, staging_bytes = 0, sideband_bytes = 0, trigger_bytes = 0, program_bytes = 0;
  std::uint64_t sum_bytes = 0;
  std::uint64_t max_bytes = 0, ram_bytes = 0;
  std::uint64_t tracker_bytes = 0;                // the part of `program` for the process tracker and its checkpoint
  std::optional<std::uint64_t> cgroup_max_bytes;  // the memory limit of flightd's cgroup
};
struct ReportedValue {
  std::string path, value, file;
  int line = 0;
};
// GetConfig, and `flightctl --json config`: {config: [{path, value, file, line}], memory, digest}.
struct ConfigReport {
  std::vector<ReportedValue> values;
  ConfigMemory memory;
  std::string digest;
  std::vector<std::string> warnings;
};
[[nodiscard]] std::string to_json(const std::vector<ReportedValue>& values);  // an array
[[nodiscard]] std::string to_json(const ConfigReport& report);
[[nodiscard]] Result<ConfigReport> parse_config_report(std::string_view text);

// A value that the reload changed. `file`, `line`: where it is set now; of a removed one, where it was.
struct ReportedChange {
  std::string path;
  std::optional<std::string> before, now;  // nullopt: there was none, or is none any more
  std::string file;
  int line = 0;
};
// Reload, and `flightctl --json reload`: {digest, changed, changes, warnings, lost_history}.
struct ReloadReport {
  std::string digest;
  bool changed = false;  // rings were closed or opened
  // nullopt: not known; flightd is older, or nothing was in force before
  std::optional<std::vector<ReportedChange>> changes{};
  std::vector<std::string> warnings;  // settings that need a restart, and what the store will delete
  // The channels of before of which a ring was closed, in order; nullopt: not known.
  std::optional<std::vector<std::string>> lost_history{};
};
[[nodiscard]] std::string to_json(const ReloadReport& report);
[[nodiscard]] Result<ReloadReport> parse_reload_report(std::string_view text);

}  // namespace flight
