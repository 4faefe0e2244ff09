// SPDX-License-Identifier: Apache-2.0
#include "daemon/start_signals.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>

namespace flight::daemon {

void hold_signals() {
  sigset_t held, free;
  ::sigemptyset(&held);
  ::sigemptyset(&free);
  for (const int number : {SIGUSR2, SIGHUP}) ::sigaddset(&held, number);
  for (const int number : {SIGTERM, SIGINT}) ::sigaddset(&free, number);
  ::sigprocmask(SIG_BLOCK, &held, nullptr);
  ::sigprocmask(SIG_UNBLOCK, &free, nullptr);
}

Result<UniqueFd> block_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR2, SIGHUP}) ::sigaddset(&set, number);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return sys_error(errno, "signalfd");
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return sys_error(errno, "block signals");
  return fd;
}

}  // namespace flight::daemon
