// SPDX-License-Identifier: Apache-2.0
// Starts every thread: std::thread's constructor throws if the kernel has no task or memory left (pids.max,
// RLIMIT_NPROC, RLIMIT_AS), which is an ordinary error here. A program starts its threads at its start, so that it
// keeps working when no more can be started.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "libcore/base/result.hpp"

namespace flight {

// If the body throws std::bad_alloc, the program exits with a message and status 1. `name`: at most 15 characters, as
// in ps(1). EAGAIN: no task or no memory is left.
[[nodiscard]] Result<std::thread> start_thread(std::string name, std::function<void()> body);

// The CPU time that the calling thread has used.
[[nodiscard]] std::chrono::nanoseconds thread_cpu_time();

// Sets the time slice of the calling thread, and of the threads that it starts later (sched_setattr(2), sched_runtime
// of SCHED_OTHER: Linux 6.12 and newer; older kernels ignore it). 0: the kernel's own. When a thread wakes whose slice
// is shorter than that of the running thread, it gets the CPU at once, and not at one of the next ticks.
void set_time_slice(std::chrono::nanoseconds slice);

// For a thread that must react at once: it waits with SCHED_FIFO 1, so that no ordinary program keeps the CPU when it
// is woken, and takes its own policy again as soon as it has done what is urgent. Ordinary threads also at nice -10 and
// with a short slice wait for one to three ticks of a busy machine (4 ms each at 250 Hz; Linux 6.18).
// Whatever wakes the thread, and however often: with this policy it uses at most 1 % of a CPU over time. A thread that
// has used more waits as an ordinary thread until its use is below 1 % again. For one thread.
class UrgentWait {
 public:
  // The CPU time that may be used at once, before the share of 1 % counts.
  static constexpr std::chrono::milliseconds kAtOnce{10};
  static constexpr int kShare = 100;  // one part of so many

  UrgentWait() = default;
  UrgentWait(const UrgentWait&) = delete;
  UrgentWait& operator=(const UrgentWait&) = delete;
  // Call it before the wait. Where SCHED_FIFO is refused (RLIMIT_RTPRIO), nothing changes, and it is not tried again.
  // Nothing changes either while the share is used up: then it returns after which time it is worth another call, so
  // that a long wait does not stay an ordinary one.
  std::optional<std::chrono::nanoseconds> begin();
  // Call it after the urgent part: the policy, nice level and slice are again those before begin(). If the nice level
  // was raised meanwhile and may not be lowered, it stays. Does nothing without a begin().
  void end();

 private:
  void earn();

  std::chrono::nanoseconds left_ = kAtOnce;                 // below 0: used in advance
  std::chrono::nanoseconds earned_at_{}, used_at_begin_{};  // CLOCK_MONOTONIC; CPU time of this thread
  int nice_ = 0;
  std::uint64_t slice_ns_ = 0;
  bool waits_ = false, refused_ = false;
};

}  // namespace flight
