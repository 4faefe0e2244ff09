// SPDX-License-Identifier: Apache-2.0
// Samples have the number of their cgroup; the paths are in the process tracker, which keeps a limited number of them.
// Where one has no path, the unit of its samples is unknown, and a reader must know why.
#pragma once

#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// Adds a warning or a note about processes with samples whose cgroup's path is not known, and why; if it was dropped
// for a newer one, also if there are few samples.
void describe_cgroups(Sidecar& out, const Selection& selection, const TrackerExport& sideband);

}  // namespace flight
