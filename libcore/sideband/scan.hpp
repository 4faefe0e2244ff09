// SPDX-License-Identifier: Apache-2.0
// Merges a scan of the running processes with the data of the process tracker. Private to sideband.
//
//   unknown process            state, from its start on, with all its maps
//   known, but maps missing    records of them, at the scan's time
//   after a gap                see doubt.hpp
//   not or not wholly read     left as it is; the next scan is due soon
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>

#include "libcore/base/clock_history.hpp"
#include "libcore/sideband/gaps.hpp"
#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/record_log.hpp"
#include "libcore/sideband/scanned_symbols.hpp"

namespace flight {

// A scan takes a while, but has only one time: a process that started or exited within this of it is not changed.
inline constexpr EventTime kScanSlackNs = 2'000'000'000;

struct ScanMerge {
  RecordBuffer additions;                         // for the log
  std::uint64_t unsure = 0;                       // processes that the scan could not confirm
  Unread unread;                                  // the next scan has to read them
  bool settled = false;                           // false: the scan has no processes
  std::optional<OldBpf> old_bpf;                  // nullopt: the scan has no symbols
  std::unordered_set<std::uint32_t> partly_read;  // or not at all: these can have mappings that are not known
};

// `gaps`: the records that are missing since the last scan, and the processes that it left in doubt. `symbol_gap`: the
// same for symbols; a scan with symbols ends it. `known_from_ns`: as for merge_symbols(). `clock`: as for read_scan().
[[nodiscard]] ScanMerge merge_scan(std::span<const std::byte> scan, EventTime scanned_ns, const Gaps& gaps,
                                   std::optional<SymbolGap>& symbol_gap, EventTime known_from_ns, const RecordLog& log,
                                   const ClockHistory& clock, ProcessTable& table, KernelTable& kernel);

}  // namespace flight
