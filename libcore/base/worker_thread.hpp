// SPDX-License-Identifier: Apache-2.0
// Settings of all threads that do flightd's work in bulk (walk, sort, compress, write). They run at a low priority,
// because the machine may be busy with its own work.
#pragma once

#include <thread>
#include <vector>

namespace flight {

// Lowers the priority of the calling thread: nice 5, SCHED_BATCH, best-effort I/O priority 7.
void lower_this_thread();

// Keeps a running thread on these CPUs (sched_setaffinity(2)); at least one. Returns 0 or an errno; the thread then
// runs on any CPU.
[[nodiscard]] int keep_on_cpus(std::thread& thread, const std::vector<int>& cpus);

}  // namespace flight
