// SPDX-License-Identifier: Apache-2.0
// Scheduling in a snapshot with sched:sched_switch: how long each thread ran, waited for a CPU or was blocked, when at
// worst, and who ran instead. The terms and the numbers are those of `perf sched timehist`.
//
//   file ──▶ switches, wake-ups ──▶ SchedTape ──▶ SchedReplay ──▶ threads, CPUs ──▶ rows
//              (SchedEvents)        in order          │ └────▶ stretches, for pictures (SchedLanes)
//                                                     └──────▶ again, for who ran instead (SchedWaits)
//
// The file is input from outside. Memory is bounded by the limits of the parts; what is beyond one is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/profile/read_records.hpp"
#include "libcore/profile/sched_events.hpp"
#include "libcore/profile/sched_lanes.hpp"
#include "libcore/profile/sched_replay.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

struct SchedOrder {
  SchedStretch shown{.begin_ns = 0, .end_ns = UINT64_MAX, .covered_ns = 0};
  const Sidecar* sidecar = nullptr;  // for its holes; nullptr: there are none
  // False: stretches that go on at the end do not count, as in `perf sched timehist`.
  bool count_what_goes_on = true;
  std::size_t most_rows = 20;
  std::size_t most_instead = 3;  // threads of a row
  SchedLanesOrder lanes;         // by default none
  std::size_t most_records = SchedTape::kMostRecords;
  ReadLimits limits;
};

struct SchedRow {
  std::uint32_t thread = 0;           // an index of `threads`
  std::vector<SchedInstead> instead;  // who ran while it waited for a CPU, the most first
};

struct SchedProfile {
  static constexpr std::size_t kMostRowsWithInstead = 256;

  // ENODEV: the file has no sched:sched_switch. Otherwise as SnapshotProfile::read().
  [[nodiscard]] static Result<SchedProfile> read(const FileReader& file, const SchedOrder& order);

  // "nginx", ":7" if it is not known. Not printable().
  [[nodiscard]] std::string name_of(std::uint32_t thread) const;

  SchedStretch shown;  // begins later than ordered if there were too many records
  SchedKnowledge knowledge;
  std::vector<SchedThread> threads;
  std::vector<SchedCpu> cpus;  // by number
  std::vector<std::string> names;
  std::vector<SchedRow> rows;          // by the wait for a CPU, then the time in D, then the run time
  std::vector<std::uint32_t> blocked;  // the threads with time in D, the most first, at most most_rows
  std::size_t more_blocked = 0;        // that are not there
  // Threads in state D, the mean of each step from shown.begin_ns on.
  std::uint64_t lane_step_ns = 0;
  std::vector<double> blocked_lane;
  SchedHoles holes;
  SchedLanes lanes;

  std::uint64_t switches = 0, wakeups = 0;  // in the file
  std::uint64_t lost = 0;                   // by its LOST records of these events
  std::uint64_t malformed = 0;
  std::uint64_t left_out = 0;  // the oldest, over most_records
  std::uint64_t left_out_threads = 0;
};

}  // namespace flight
