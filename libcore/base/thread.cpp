// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

namespace flight {
namespace {

// A thread without memory cannot continue, and other threads would wait for it without limit. So the whole program
// exits with a message and without a core dump; a service manager restarts it.
[[noreturn]] void end_without_memory(const std::string& name) {
  std::array<char, 128> text{};
  const int size =
      std::snprintf(text.data(), text.size(),
                    "thread '%s': out of memory or address space (ulimit -v, MemoryMax=): exiting\n", name.c_str());
  pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (size > 0 && ::poll(&ready, 1, 0) == 1)
    static_cast<void>(!::write(STDERR_FILENO, text.data(), static_cast<std::size_t>(size)));
  ::_exit(1);
}

// struct sched_attr of linux/sched/types.h, first version. glibc 2.41 defines it, too, and older ones do not.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

// linux/sched.h; glibc before 2.41 does not define it. A child process or thread has none of the priority.
constexpr std::uint64_t kResetOnFork = 1;

std::chrono::nanoseconds now_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

bool set_scheduling(const SchedulingAttributes& wanted) { return ::syscall(SYS_sched_setattr, 0, &wanted, 0U) == 0; }

}  // namespace

Result<std::thread> start_thread(std::string name, std::function<void()> body) {
  try {
    return std::thread([name, body = std::move(body)] {
      ::pthread_setname_np(::pthread_self(), name.c_str());
      try {
        body();
      } catch (const std::bad_alloc&) {
        end_without_memory(name);
      }
    });
  } catch (const std::system_error& error) {
    return sys_error(error.code().value(),
                     "start the thread '{}' (too few tasks or too little address space: TasksMax= or pids.max of the "
                     "cgroup, ulimit -u, ulimit -v)",
                     name);
  }
}

std::chrono::nanoseconds thread_cpu_time() { return now_of(CLOCK_THREAD_CPUTIME_ID); }

void set_time_slice(std::chrono::nanoseconds slice) {
  if (::sched_getscheduler(0) != SCHED_OTHER) return;
  SchedulingAttributes wanted;
  wanted.nice = ::getpriority(PRIO_PROCESS, 0);
  wanted.runtime = static_cast<std::uint64_t>(slice.count());
  static_cast<void>(set_scheduling(wanted));
}

void UrgentWait::earn() {
  const std::chrono::nanoseconds now = now_of(CLOCK_MONOTONIC);
  if (earned_at_.count() != 0) left_ = std::min<std::chrono::nanoseconds>(left_ + (now - earned_at_) / kShare, kAtOnce);
  earned_at_ = now;
}

std::optional<std::chrono::nanoseconds> UrgentWait::begin() {
  if (waits_ || refused_) return std::nullopt;
  earn();
  if (left_.count() <= 0) return (std::chrono::milliseconds(1) - left_) * kShare;
  SchedulingAttributes now;
  // Only from SCHED_OTHER: another policy was set on purpose, and is kept.
  if (::syscall(SYS_sched_getattr, 0, &now, sizeof now, 0U) != 0 || now.policy != SCHED_OTHER) return std::nullopt;
  SchedulingAttributes urgent;
  urgent.policy = SCHED_FIFO;
  urgent.flags = kResetOnFork;
  urgent.priority = 1;
  used_at_begin_ = thread_cpu_time();
  waits_ = set_scheduling(urgent);
  refused_ = !waits_;
  nice_ = now.nice;
  slice_ns_ = now.runtime;
  return std::nullopt;
}

void UrgentWait::end() {
  if (!waits_) return;
  SchedulingAttributes before;
  before.flags = kResetOnFork;  // only a privileged process may take it back
  before.nice = nice_;
  before.runtime = slice_ns_;
  waits_ = !set_scheduling(before);
  if (waits_) {
    before.nice = ::getpriority(PRIO_PROCESS, 0);
    waits_ = !set_scheduling(before);
  }
  const std::chrono::nanoseconds used = thread_cpu_time();
  left_ -= used - std::exchange(used_at_begin_, used);
}

}  // namespace flight
