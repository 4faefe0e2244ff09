// SPDX-License-Identifier: Apache-2.0
// What a file says beside its records: the machine, the events, the builds. Read once at start where it cannot change.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/features.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/sideband/ledger.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight {

struct HostFacts {
  HostInfo host;
  CpuTopology topology;
  std::vector<NumaNode> numa;
  std::vector<std::pair<std::uint32_t, std::string>> pmus;
  std::uint32_t cpus_available = 0, cpus_online = 0;
  std::vector<std::string> command_line;

  [[nodiscard]] static HostFacts read(std::vector<std::string> command_line);
};

// The manifest's events in its order: the sideband's dummy is the first, so that its layout is that of the zero ids.
[[nodiscard]] std::vector<FileEvent> file_events(const Manifest& manifest);

// All features but SAMPLE_TIME and COMPRESSED, which the pipeline knows at its end.
[[nodiscard]] Features file_features(const HostFacts& facts, const Manifest& manifest,
                                     const std::vector<LedgerExport::UserBuildId>& user_build_ids,
                                     const ClockPair& clock);

// The records that come before all others: kernel and module maps.
void append_kernel_maps(RecordBuffer& out, const Manifest& manifest);

}  // namespace flight
