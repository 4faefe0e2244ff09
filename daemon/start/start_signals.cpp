// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/start_signals.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>

namespace flight::daemon {
namespace {

sigset_t all_four() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR2, SIGHUP}) ::sigaddset(&set, number);
  return set;
}

}  // namespace

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
  const sigset_t set = all_four();
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return sys_error(errno, "signalfd");
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return sys_error(errno, "block signals");
  return fd;
}

int wait_for_signal(std::chrono::seconds time) {
  const sigset_t set = all_four();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  const timespec limit{.tv_sec = time.count(), .tv_nsec = 0};
  const int number = ::sigtimedwait(&set, nullptr, &limit);
  return number > 0 ? number : 0;
}

}  // namespace flight::daemon
