// SPDX-License-Identifier: Apache-2.0
// Samples have the number of their cgroup; the paths are in the process tracker, which keeps a limited number of them.
#pragma once

#include <string>

#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

// A warning about processes with samples whose cgroup's path the tracker has dropped; empty: there are none.
[[nodiscard]] std::string warn_of_cgroups(const Selection& selection, const TrackerExport& sideband);

}  // namespace flight
