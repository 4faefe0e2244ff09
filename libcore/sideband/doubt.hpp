// SPDX-License-Identifier: Apache-2.0
// Which processes are still the same after a gap in the sideband, and what is recorded about the others; private to
// sideband.
//
//        known           gap           complete again      scan
//   ───────────────┬─ ─ ─ ─ ─ ─ ─ ─┬───────────────────────┬────
//   the same before and now        │                       │     no record: unchanged all the time
//   a name or maps differ  [lost]  │ as in the scan, unless the log has a later record
//   another start time     [lost] from its start …         │
//   absent            ended with the gap's beginning, if the scan has listed all
//   there, not read   in doubt until the next scan: nothing is recorded yet
//   ended, or began, in it [lost] for as long as it lived in it
//   its first record later [lost]  │ as in the scan; a FORK: as the log says
//
// The result is records at these times, so log, state and checkpoint need no special case.
#pragma once

#include <vector>

#include "libcore/sideband/doubt_scope.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/record_log.hpp"
#include "libcore/sideband/scanned.hpp"

namespace flight {

struct Doubts {
  RecordBuffer additions;
  std::uint64_t unsure = 0;                // processes that are called kLostName for a while
  std::vector<ScannedProcess> unknown;     // there before the gap, and unknown
  std::vector<ScannedProcess> incomplete;  // there before the first scan, which is this one
  Unread unread;                           // the processes that stay in doubt
};

// `scan`: requested at `asked_ns`; null: there is none, so no process is confirmed. `give_up`: it is the last scan, and
// processes that it has not read are called kLostName.
[[nodiscard]] Doubts clear_up(const DoubtScope& scope, const Scan* scan, EventTime asked_ns, bool give_up,
                              const RecordLog& log, const ProcessTable& table);

}  // namespace flight
