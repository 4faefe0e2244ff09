// SPDX-License-Identifier: Apache-2.0
// What a plan needs of the process's limits, and how running into one is told. Only this room's own.
#pragma once

#include <cstddef>

#include "libcore/base/result.hpp"
#include "libcore/recorder/plan.hpp"

namespace flight {

[[nodiscard]] std::size_t fds_needed(const RecordingPlan& plan, std::size_t cpu_count);
// E2BIG: the plan has more rings than the wall carries.
[[nodiscard]] Result<void> check_ring_count(const RecordingPlan& plan, std::size_t cpu_count);
// EMFILE comes from wherever the limit was reached; what to do is the same.
[[nodiscard]] Failure explain_limit(Error error, std::size_t fd_count);

}  // namespace flight
