// SPDX-License-Identifier: Apache-2.0
// From the ledger's parts to what a file needs: the state at the window's beginning, and the log inside it; private to
// sideband.
//
//   table (folded)  ─ borrow the few that matter ─►  replay the log up to begin  ─►  prologue
//   log                                              inside [begin, end]         ─►  log
//   what was folded although it began inside the window                          ─►  log, at its own time
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/ledger.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/record_log.hpp"

namespace flight {

// All but the stats. Costs one pass over the log and what belongs to `pids`; the table is not copied. `dying_ns`: as
// LedgerLimits'.
[[nodiscard]] LedgerExport export_of(const RecordLog& log, const ProcessTable& table, const KernelTable& kernel,
                                     EventTime begin_ns, EventTime end_ns, EventTime dying_ns,
                                     const std::unordered_set<std::uint32_t>& pids);

// As Ledger::comms_of.
[[nodiscard]] std::vector<std::string> comms_in(const RecordLog& log, const ProcessTable& table,
                                                std::span<const ProcessAt> asked);

}  // namespace flight
