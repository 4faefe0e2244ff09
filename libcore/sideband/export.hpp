// SPDX-License-Identifier: Apache-2.0
// Exports the part of the process tracker that a file needs: the state at the window's beginning, and the log inside
// the window. Private to sideband.
//
//   table (folded)  ─ borrow the needed processes ─►  replay the log up to begin  ─►  prologue
//   log                                               inside [begin, end]         ─►  log
//   processes that began inside the window and were folded early                  ─►  log, at their own time
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/sideband/record_log.hpp"

namespace flight {

struct ExportOrder {
  EventTime begin_ns = 0, end_ns = 0;
  EventTime dying_ns = 0;  // as in TrackerLimits
  const std::unordered_set<std::uint32_t>& pids;
  std::size_t most_bytes = 0;  // limit for what is written from state: beyond it, processes have only names
  const Gaps& gaps;
};

// Sets all fields except stats, gaps, warnings and maps_from_ns; of partial_maps those whose mappings were forgotten.
// Costs one pass over the log and the processes in `pids`; the table is not copied.
[[nodiscard]] TrackerExport export_of(const RecordLog& log, const ProcessTable& table, const KernelTable& kernel,
                                      const ExportOrder& order);

// As ProcessTracker::pids.
[[nodiscard]] std::unordered_set<std::uint32_t> pids_in(const RecordLog& log, const ProcessTable& table);
// Appends the records with times in (after_ns, until_ns].
void append_between(const RecordLog& log, EventTime after_ns, EventTime until_ns, RecordBuffer& out);

// As ProcessTracker::comms_of.
[[nodiscard]] std::vector<std::string> comms_in(const RecordLog& log, const ProcessTable& table,
                                                std::span<const ProcessAt> asked);

}  // namespace flight
