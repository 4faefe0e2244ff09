// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/inherited_state.hpp"

#include <malloc.h>
#include <pthread.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "libcore/base/kernel_file.hpp"
#include "libcore/base/proc_check.hpp"

namespace flight {
namespace {

constexpr rlim_t kStackBytes = 8U << 20U;         // the kernel's default; memory is taken only where it is touched
constexpr rlim_t kLeastStackBytes = 128U << 10U;  // of the main thread

// The main thread would get SIGSEGV somewhere. It has no stack to waste here either.
[[noreturn]] void end_for_lack_of_stack(rlim_t bytes) {
  std::array<char, 256> text{};
  const int length = std::snprintf(
      text.data(), text.size(),
      "%s: the stack may have at most %llu KiB (the hard limit RLIMIT_STACK), and at least %llu are needed: raise it "
      "(ulimit -Hs, LimitSTACK= of a unit)\n",
      program_invocation_short_name, static_cast<unsigned long long>(bytes >> 10U),
      static_cast<unsigned long long>(kLeastStackBytes >> 10U));
  if (length > 0)
    (void)!::write(STDERR_FILENO, text.data(), std::min(text.size() - 1, static_cast<std::size_t>(length)));
  ::_exit(1);
}

// glibc gives each thread the stack that RLIMIT_STACK has at the start, and a main thread can grow up to its present
// value. Threads get theirs also where the hard limit forbids to raise it.
void settle_stacks() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kStackBytes) {
    const rlimit usual{.rlim_cur = kStackBytes, .rlim_max = std::max(kStackBytes, limit.rlim_max)};
    if (::setrlimit(RLIMIT_STACK, &usual) != 0) {  // that is above the hard limit, and takes CAP_SYS_RESOURCE
      if (limit.rlim_max < kLeastStackBytes) end_for_lack_of_stack(limit.rlim_max);
      limit.rlim_cur = std::min(kStackBytes, limit.rlim_max);
      ::setrlimit(RLIMIT_STACK, &limit);
    }
  }
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  std::size_t bytes = 0;
  if (::pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < kStackBytes &&
      ::pthread_attr_setstacksize(&attributes, kStackBytes) == 0)
    ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

// What glibc does for the heap of a new thread (malloc/arena.c). It reserves 64 MiB of address space: with a limit
// (ulimit -v) the first threads would leave nothing to the others. Unless the number of heaps is limited, it opens
// /sys/devices/system/cpu/online at the ninth, in arena_get2(). When one shrinks, it opens
// /proc/sys/vm/overcommit_memory, in check_may_shrink_heap(). In a container both can be files of a FUSE server, and a
// thread that waits for one that hangs cannot be ended. The main heap, which all can share, does none of this.
void settle_heaps() {
  constexpr int kMostHeaps = 16;  // glibc's own limit on a machine with two CPUs
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const bool waits = !waits_below("/proc", "/proc/sys/vm/overcommit_memory").empty();
  ::mallopt(M_ARENA_MAX, is_limited || waits ? 1 : kMostHeaps);
}

// setarch(8), as of a shell for builds of 32 bits, changes what uname(2) says: the architecture in each file would be
// another one, and an old release looks like a kernel without newer features.
void settle_uname() {
  utsname names{};
  if (sizeof(void*) != 8 || ::uname(&names) != 0) return;
  const std::string_view machine = names.machine, release = names.release;
  const bool is_narrow = machine == "i686" || machine.starts_with("armv");
  if (!is_narrow && !release.starts_with("2.6.")) return;
  constexpr unsigned long kAsk = 0xffffffff;
  const int now = ::personality(kAsk);
  if (now < 0) return;
  constexpr unsigned long kOthers = static_cast<unsigned long>(PER_MASK) | static_cast<unsigned long>(UNAME26);
  ::personality(static_cast<unsigned long>(now) & ~kOthers);
}

// A timer outlives execve(2), and its signal would end the service. A command keeps it: its caller may want that.
void stop_timers() {
  constexpr itimerval kNone{};
  for (const auto timer : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) ::setitimer(timer, &kNone, nullptr);
}

}  // namespace

void settle_inherited_state(ProgramKind kind) {
  static_cast<void>(std::signal(SIGCHLD, SIG_DFL));
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  await_proc(kind == ProgramKind::service && std::getenv("NOTIFY_SOCKET") != nullptr);
  settle_stacks();
  settle_heaps();
  if (kind == ProgramKind::command) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    return;
  }
  settle_uname();
  // A shell without job control ignores SIGINT in what it starts with `&`: a start could not be ended.
  for (const int number : {SIGTERM, SIGINT}) static_cast<void>(std::signal(number, SIG_DFL));
  // A service keeps its mask: it reads some signals from a descriptor, and one that came early must not end it.
  stop_timers();
  // SIGUSR1 has no meaning, and would end the service.
  for (const int number : {SIGPIPE, SIGUSR1}) static_cast<void>(std::signal(number, SIG_IGN));
  constexpr mode_t kOthersBits = 077;
  ::umask(::umask(kOthersBits) & kOthersBits);
  // The signal of RLIMIT_RTTIME would end the process; each use of the CPU in real time has a limit of its own.
  for (const auto resource :
       {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_NPROC, RLIMIT_RTPRIO, RLIMIT_RTTIME}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(resource, &limit);
  }
}

void restore_for_exec() { static_cast<void>(std::signal(SIGXFSZ, SIG_DFL)); }

}  // namespace flight
