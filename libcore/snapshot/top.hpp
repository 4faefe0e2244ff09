// SPDX-License-Identifier: Apache-2.0
// Who burned the CPUs, for the sidecar: counted by the samples' pids, named by the sideband that goes into the file. A
// pid that was taken again inside the window is one process before its FORK and another one after it.
#pragma once

#include <vector>

#include "libcore/broker/protocol.hpp"
#include "libcore/sideband/ledger.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// The processes with the most samples: `most` by the window's, and half as many each by those of the two stretches that
// are compared; so at most twice `most`. Events that sample (a frequency) count; where none does, all do. CPUs' worth
// is told where cpu-clock is the only event that samples.
[[nodiscard]] std::vector<SidecarTop> top_processes(const Selection& selection, const Manifest& manifest,
                                                    const std::vector<std::size_t>& channel_rings,
                                                    const EventTable& events, const LedgerExport& sideband,
                                                    std::size_t most = 10);

}  // namespace flight
