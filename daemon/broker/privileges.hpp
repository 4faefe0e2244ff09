// SPDX-License-Identifier: Apache-2.0
// Drops all privileges that the broker does not need, before it serves a client. Each function is called once, at
// start, in this order.
#pragma once

#include <sys/types.h>

#include <optional>

#include "libcore/base/result.hpp"

namespace flight::broker {

// Sets flightd's group as the only supplementary one, so that files can be created in its directory without
// CAP_DAC_OVERRIDE.
[[nodiscard]] Result<void> join_group(std::optional<gid_t> group);
// Keeps those of CAP_PERFMON, CAP_IPC_LOCK, CAP_SYSLOG, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHOWN and
// CAP_CHECKPOINT_RESTORE that the process has; CAP_SYS_ADMIN only if perf_event_open requires it (Debian's and
// Ubuntu's kernels at perf_event_paranoid >= 3). Then sets no_new_privs.
[[nodiscard]] Result<void> drop_privileges();

}  // namespace flight::broker
