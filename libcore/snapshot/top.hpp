// SPDX-License-Identifier: Apache-2.0
// The users of the CPUs, for the sidecar: counted by the samples' pids, named by the file's sideband, and summed by
// unit and by program: 24 workers with 1 % each are one row of 24 %.
#pragma once

#include <vector>

#include "libcore/broker/protocol.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

struct Ranking {
  std::vector<SidecarGroup> units, programs;
  std::vector<SidecarTop> processes;
  SidecarForks forks;
  std::vector<std::string> warnings;  // about names: what cannot be compared
};

// Each list has the rows with the most samples: `most` by the window's, and half as many each by those of the two
// stretches that are compared; so at most twice `most`. Sampling events (with a frequency) count; if there are none,
// all events count. `own_pid_namespace` as in HostFacts.
[[nodiscard]] Ranking rank(const Selection& selection, const Manifest& manifest,
                           const std::vector<std::size_t>& channel_rings, const TrackerExport& sideband,
                           bool own_pid_namespace, std::size_t most = 10);

}  // namespace flight
