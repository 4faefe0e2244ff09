// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/worker_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "libcore/base/thread.hpp"

namespace flight {
namespace {

constexpr int kWorkerNice = 5;

// The arguments of ioprio_set(2). <linux/ioprio.h> of Linux 6.1.192 and later has a parameter called `class` in an
// inline function, so no C++ file can include it.
constexpr int kIoprioWhoProcess = 1;
constexpr int kIoprioClassBestEffort = 2;
constexpr int kIoprioClassShift = 13;
constexpr int kLowestIoprio = (kIoprioClassBestEffort << kIoprioClassShift) | 7;

}  // namespace

void lower_this_thread() {
  // Each call may be refused; the work is then done at the current priority.
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  set_time_slice(std::chrono::nanoseconds(0));
  ::setpriority(PRIO_PROCESS, thread, kWorkerNice);
  sched_param none{};
  ::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);
  ::syscall(SYS_ioprio_set, kIoprioWhoProcess, 0, kLowestIoprio);
}

// The set is on the heap: a cpu_set_t ends at 1,024 CPUs.
int keep_on_cpus(std::thread& thread, const std::vector<int>& cpus) {
  const int count = *std::max_element(cpus.begin(), cpus.end()) + 1;
  const std::size_t bytes = CPU_ALLOC_SIZE(count);
  std::vector<std::byte> memory(bytes);
  auto* set = reinterpret_cast<cpu_set_t*>(memory.data());
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  return ::pthread_setaffinity_np(thread.native_handle(), bytes, set);
}

}  // namespace flight
