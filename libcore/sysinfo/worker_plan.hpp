// SPDX-License-Identifier: Apache-2.0
// The plan of the workers: `snapshot.workers`, with the keywords and masks of perf-record(1)'s --threads.
//
//   "cpu"           a worker for each online CPU; all serve every ring and run on any CPU
//   "3"             three workers, the same
//   "core", "package", "numa"
//                   a worker for each; serves the rings of its CPUs and runs on them
//   "0-3/3:4-7/4"   a worker for each mask: serves the rings of CPUs 0-3 and runs on CPU 3; …
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::size_t kMaxWorkers = 64;

struct PlannedWorker {
  std::vector<int> serves;   // the CPUs whose rings only this worker serves; empty: all rings
  std::vector<int> runs_on;  // empty: every CPU
};

// Returns 1 to kMaxWorkers workers. As in perf, a mask's missing CPUs are ignored, and a mask without any present CPU
// is an error. `root` is "" or a test's directory with a fake /sys. Workers of `cpu` and of a number are not pinned: a
// worker on a CPU that a real-time task occupies would delay the whole snapshot.
[[nodiscard]] Result<std::vector<PlannedWorker>> plan_workers(std::string_view words, const std::string& root = "");

}  // namespace flight
