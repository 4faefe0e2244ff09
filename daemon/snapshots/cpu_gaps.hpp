// SPDX-License-Identifier: Apache-2.0
// Describes the gaps in a window, of a snapshot or of a part of a recording, while a CPU was offline or suspended. For
// the sidecar's warnings: a CPU without samples must not be taken for an idle one. Any thread: it reads only its
// arguments.
#pragma once

#include <string>
#include <vector>

#include "libcore/base/clock_history.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight::daemon {

// For the sidecar: one sentence for each gap of the manifest that overlaps the window. A CPU that no channel records
// has none: nothing of it is missing.
[[nodiscard]] std::vector<std::string> cpu_gap_warnings(const Manifest& manifest, EventTime begin_ns, EventTime end_ns,
                                                        const ClockHistory& clock);

}  // namespace flight::daemon
