// SPDX-License-Identifier: Apache-2.0
// The processed format of the Firefox Profiler (profiler.firefox.com), version 60, packed with gzip: see
// docs-developer/processed-profile-format.md and CHANGELOG-formats.md of github.com/firefox-devtools/profiler. Later
// versions of the viewer read it, too; other tools do not read version 66, which renames `prefix`.
//
//   threads: 0  "flightd": markers of what happened, and counters of the metrics
//            1… each thread with samples, the busiest first; the last may be several. Where switches are recorded, with
//               markers of the times in which it was blocked or waited for a CPU
//            n  "CPUs": markers of who ran on each CPU in the newest part of the time, where that is recorded
//   shared:  stacks, frames, functions and texts of all threads
//
// Times are in ms from the begin of the snapshot. There are no addresses of memory: a frame's address is its function's
// offset in the file.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/export/timed_samples.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/profile/sched.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

inline constexpr std::size_t kMostFirefoxThreads = 512;  // more make the viewer slow

// Of one event, by its index in `events`. `samples`: of the profile; arrange() was called with kMostFirefoxThreads.
// `notes`: what is missing, for people. `write` is called with some KiB at a time. `sched`, with its lanes; nullptr:
// there are no switches.
[[nodiscard]] Result<void> write_firefox(const SnapshotProfile& profile, std::size_t event, const TimedSamples& samples,
                                         const Sidecar& sidecar, const std::vector<std::string>& notes,
                                         const std::function<Result<void>(std::span<const std::byte> bytes)>& write,
                                         const SchedProfile* sched = nullptr);

}  // namespace flight
