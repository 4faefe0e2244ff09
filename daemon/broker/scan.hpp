// SPDX-License-Identifier: Apache-2.0
// What runs now, and which cgroups there are, as the sideband records that the kernel would have written: what
// flightd's ledger takes up. The trailers carry the time of the look and the sideband's id on its first CPU.
#pragma once

#include "libcore/base/result.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

// CGROUP records; then, for each process by pid: FORK (at the time it started), COMM, MMAP2 for each executable
// mapping, FORK and COMM for each further thread. At most kMaxProcessesBytes: what is beyond is left out.
[[nodiscard]] Result<RecordBuffer> scan_processes(const Manifest& manifest);

}  // namespace flight
