// SPDX-License-Identifier: Apache-2.0
// EXIT records, moved behind the last sample of their task. A task runs on in the kernel after its EXIT was written
// (perf_event_exit_task comes in the middle of do_exit(), kernel/exit.c) and is sampled there; a reader that has met
// the EXIT gives such samples no name. The time in the record's body stays the kernel's.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "libcore/perf/record_build.hpp"
#include "libcore/snapshot/crew.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

// `log`: the ledger's, ascending in time. The same records, ascending again; nullopt: it is right as it is. Reads the
// samples on the crew; waits.
[[nodiscard]] std::optional<RecordBuffer> exits_behind_samples(std::span<const std::byte> log,
                                                               const Selection& selection, const EventTable& events,
                                                               Crew& crew);

}  // namespace flight
