// SPDX-License-Identifier: Apache-2.0
// Starts every thread: std::thread's constructor throws if the kernel has no task or memory left (pids.max,
// RLIMIT_NPROC, RLIMIT_AS), which is an ordinary error here. A program starts its threads at its start, so that it
// keeps working when no more can be started.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "libcore/base/result.hpp"

namespace flight {

// If the body throws std::bad_alloc, the program exits with a message and status 1. `name`: at most 15 characters, as
// in ps(1). EAGAIN: no task or no memory is left.
[[nodiscard]] Result<std::thread> start_thread(std::string name, std::function<void()> body);

// Sets the time slice of the calling thread, and of the threads that it starts later (sched_setattr(2), sched_runtime
// of SCHED_OTHER: Linux 6.12 and newer; older kernels ignore it). 0: the kernel's own. When a thread wakes whose slice
// is shorter than that of the running thread, it gets the CPU at once, and not at one of the next ticks.
void set_time_slice(std::chrono::nanoseconds slice);

}  // namespace flight
