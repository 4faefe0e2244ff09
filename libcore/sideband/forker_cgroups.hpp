// SPDX-License-Identifier: Apache-2.0
// The cgroups of processes that fork but have no samples. The sideband does not have them: its CGROUP records contain
// a cgroup's path, and only a sample assigns a process to it. So /proc is read for those that are still alive. It has
// the present cgroup: nothing records a move, but a cgroup that was made later was not the process's before.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>

#include "libcore/base/clock_history.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

inline constexpr std::size_t kMostForkersRead = 32;  // those that forked most; the table of forks shows fewer

// Sets window.forker_cgroups for processes that are not in `sampled`. Only if /proc has the same name for that pid,
// and the process existed before the first of these forks. Any thread that may wait for the kernel's cgroup lock.
// `clock`: with a look after the forks. `root` as in cpus.hpp.
void read_forker_cgroups(TrackerExport& window, const std::unordered_set<std::uint32_t>& sampled,
                         const ClockHistory& clock, const std::string& root = "");

}  // namespace flight
