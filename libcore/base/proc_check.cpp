// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/proc_check.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string>

#include "libcore/base/close_inherited.hpp"
#include "libcore/base/service_manager.hpp"

namespace flight {
namespace {

constexpr int kTryAgainMs = 5000;  // far less than the watchdogs of the units
constexpr const char* kNoAnswer =
    "/proc does not answer: another file system than the kernel's is mounted there, whose server hangs; end the "
    "server, or run `umount --lazy /proc`";

// Asks no server. A folder without a mount, as in a chroot, is not procfs either, and answers.
bool is_procfs() {
  alignas(file_handle) std::array<std::byte, sizeof(file_handle)> space{};
  auto* handle = reinterpret_cast<file_handle*>(space.data());  // of no bytes: too small for any file system
  int mount = 0;
  return ::name_to_handle_at(AT_FDCWD, "/proc", handle, &mount, 0) == 0 || errno != EOVERFLOW;
}

[[noreturn]] void look_into_proc() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_inherited(STDIN_FILENO);
  struct stat status {};
  ::_exit(::stat("/proc/self", &status) == 0 ? 0 : 1);
}

}  // namespace

bool proc_answers(std::chrono::milliseconds patience) {
  static pid_t looking = -1;
  if (looking < 0) {
    if (is_procfs()) return true;
    looking = ::fork();
    if (looking < 0) return true;  // there is no task: what needs one says so
    if (looking == 0) look_into_proc();
  }
  const auto deadline = std::chrono::steady_clock::now() + patience;
  int status = 0;
  while (::waitpid(looking, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      ::kill(looking, SIGKILL);
      return false;
    }
    ::poll(nullptr, 0, 1);
  }
  looking = -1;
  return WIFEXITED(status);  // else it is one that was killed before: it is tried again
}

void await_proc(bool stays, std::chrono::milliseconds patience) {
  if (proc_answers(patience)) return;
  const std::string line = std::string(program_invocation_short_name) + ": " + kNoAnswer + "\n";
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  if (!stays) ::_exit(1);
  static_cast<void>(notify_service_manager(
      std::string("READY=1\nSTATUS=recording: no (") + kNoAnswer + "); trying again", kNotifySoon));
  while (!proc_answers(patience)) {
    static_cast<void>(notify_service_manager("WATCHDOG=1", kNotifySoon));
    ::poll(nullptr, 0, kTryAgainMs);
  }
}

}  // namespace flight
