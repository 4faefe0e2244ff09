// SPDX-License-Identifier: Apache-2.0
// The kernel locks the memory of rings. Without CAP_IPC_LOCK, as in many containers, a user's rings must fit into
// kernel.perf_event_mlock_kb for each CPU and RLIMIT_MEMLOCK together (perf_mmap() in kernel/events/core.c). Smaller
// rings are better than none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "libcore/recorder/plan.hpp"

namespace flight {

// nullopt: there is no limit.
[[nodiscard]] std::optional<std::uint64_t> locked_memory_limit(const KernelFeatures& features, std::size_t cpu_count);
// Halves rings, the largest first, the sideband's as well, until they fit into a half of what the kernel locks for this
// user: the other half is for the user's other perf programs. Never below their smallest sizes. Warns.
void fit_locked_memory(RecordingPlan& plan, std::size_t cpu_count, std::uint64_t limit_bytes);

}  // namespace flight
