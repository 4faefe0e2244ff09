// SPDX-License-Identifier: Apache-2.0
// Checks a plan against the limits of the process, and makes the error texts. Private to this module.
#pragma once

#include <cstddef>

#include "libcore/base/result.hpp"
#include "libcore/recorder/plan.hpp"

namespace flight {

[[nodiscard]] std::size_t fds_needed(const RecordingPlan& plan, std::size_t cpu_count);
// Switches kernel-event triggers off, the last first, while RLIMIT_NOFILE is too small for all events. What is still
// missing then is an error at opening.
void fit_descriptors(RecordingPlan& plan, std::size_t cpu_count);
// E2BIG: the plan has more rings than the broker protocol carries.
[[nodiscard]] Result<void> check_ring_count(const RecordingPlan& plan, std::size_t cpu_count);
// EMFILE, ENFILE, wherever the limit was reached: adds what to do.
[[nodiscard]] Failure explain_limit(Error error, std::size_t fd_count);

}  // namespace flight
