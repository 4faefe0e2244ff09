// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/inherited_state.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

namespace flight {

void settle_inherited_state(ProgramKind kind) {
  static_cast<void>(std::signal(SIGCHLD, SIG_DFL));
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  if (kind == ProgramKind::command) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    return;
  }
  // A service keeps its mask: it reads some signals from a descriptor, and one that came early must not end it.
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  constexpr mode_t kOthersBits = 077;
  ::umask(::umask(kOthersBits) & kOthersBits);
  for (const auto resource : {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_MEMLOCK}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(resource, &limit);
  }
}

void restore_for_exec() { static_cast<void>(std::signal(SIGXFSZ, SIG_DFL)); }

}  // namespace flight
