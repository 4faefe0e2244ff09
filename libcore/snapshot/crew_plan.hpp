// SPDX-License-Identifier: Apache-2.0
// Who works where: `snapshot.crew`, in the words and masks of perf-record(1)'s --threads, on this machine's CPUs.
//
//   "cpu"           a worker for each online CPU, and
//   "3"             three workers: all serve every ring and run where the scheduler lets them
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

struct CrewWorker {
  std::vector<int> serves;   // the CPUs whose rings are this worker's alone; empty: those of nobody's
  std::vector<int> runs_on;  // empty: every CPU
};

// At least one worker, at most kMaxWorkers. As in perf, a mask's CPUs that are not there are ignored, and a mask in
// which none is there is an error. `root` is "" or a test's folder with a fake /sys in it.
[[nodiscard]] Result<std::vector<CrewWorker>> plan_crew(std::string_view words, const std::string& root = "");

}  // namespace flight
