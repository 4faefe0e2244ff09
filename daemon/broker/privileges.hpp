// SPDX-License-Identifier: Apache-2.0
// The broker gives away all it does not need before it looks at a client. Called once, at start, in this order.
#pragma once

#include <sys/types.h>

#include <optional>

#include "libcore/base/result.hpp"

namespace flight {

// Soft RLIMIT_NOFILE to hard: a descriptor for each event, CPU.
void raise_descriptor_limit();
// flightd's group as the only supplementary one, so that files can be made in its folder without
// CAP_DAC_OVERRIDE.
[[nodiscard]] Result<void> join_group(std::optional<gid_t> group);
// Keeps CAP_PERFMON, CAP_IPC_LOCK, CAP_SYSLOG, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH and CAP_CHOWN, as far as they are
// there; CAP_SYS_ADMIN only where perf_event_open asks for it (Debian's and Ubuntu's kernels at perf_event_paranoid >=
// 3). Then no_new_privs.
[[nodiscard]] Result<void> drop_privileges();

}  // namespace flight
