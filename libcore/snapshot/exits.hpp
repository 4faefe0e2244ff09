// SPDX-License-Identifier: Apache-2.0
// Moves EXIT records after the last sample of their task. A task is still sampled for some microseconds after its EXIT
// record (perf_event_exit_task is called in the middle of do_exit(), kernel/exit.c), and perf shows such a sample as
// `:PID`. The time in the record's body is not changed.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/gaps.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/snapshot/worker_pool.hpp"

namespace flight {

// `log`: the process tracker's, ascending by time. Returns the same records, ascending again; nullopt if nothing
// moved. Goes through RingSelection::tasks on the workers and waits; it reads no record. A sample after one of the
// `gaps` may belong to another task with the same tid.
[[nodiscard]] std::optional<RecordBuffer> exits_behind_samples(std::span<const std::byte> log,
                                                               std::span<const SidebandGap> gaps,
                                                               const Selection& selection, WorkerPool& workers);

}  // namespace flight
