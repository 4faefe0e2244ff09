// SPDX-License-Identifier: Apache-2.0
// A scan of what runs now, put together with what the ledger knows; private to sideband.
//
//   unknown process            state, from its start on, with all its maps
//   known, but maps missing    records of them, at the scan's time
//   known to have run, absent  EXIT at the scan's time, if records were lost
#pragma once

#include <span>

#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/record_log.hpp"

namespace flight {

// A scan takes a while, and its time is only one moment of that: what began or ended within this of it is left alone.
inline constexpr EventTime kScanSlackNs = 2'000'000'000;

// Returns the records that are to be added to the log. `lost`: records were lost since the last scan.
[[nodiscard]] RecordBuffer merge_scan(std::span<const std::byte> scan, EventTime scanned_ns, bool lost,
                                      const RecordLog& log, ProcessTable& table, KernelTable& kernel);

}  // namespace flight
