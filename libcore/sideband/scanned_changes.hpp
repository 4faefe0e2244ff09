// SPDX-License-Identifier: Apache-2.0
// Whether a scan shows a process as it is known from the records, or something is missing between the two. Private to
// sideband.
#pragma once

#include <string_view>

#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/scanned.hpp"

namespace flight {

[[nodiscard]] bool is_called(const Comm& known, std::string_view name);
// Whether a mapping in this range was dropped, so that only the scan knows what is there.
[[nodiscard]] bool overlaps_lost(const Mmap2Record& map, const Incarnation& known);
// Whether an exec, a new name or other mappings must have been lost.
[[nodiscard]] bool differs(const ScannedProcess& process, const Incarnation& known);
// Appends a note if the number of threads without a name is another one now. `known`: without the scan.
void note_unnamed_threads(const ScannedProcess& process, const Incarnation& known, EventTime time_ns,
                          RecordBuffer& additions);

}  // namespace flight
