// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/output_relay.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string>

#include "libcore/base/close_inherited.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/mounts.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {
namespace {

// Asks no server. Before Linux 5.8, nothing says on which mount a file is.
bool is_on_server(int fd) {
  constexpr std::size_t kMostBytes = 16U << 20U;
  constexpr unsigned kMountId = 0x1000;  // STATX_MNT_ID
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | kMountId, &status) != 0) return false;
  if (!S_ISREG(status.stx_mode) || (status.stx_mask & kMountId) == 0) return false;
  const auto mounts = read_file("/proc/thread-self/mountinfo", kMostBytes);
  if (!mounts) return false;
  const auto mount = mount_numbered(*mounts, std::to_string(status.stx_mnt_id));
  return mount && !waits_for(*mounts, *mount).empty();
}

// Until all who write into the pipe have ended. What cannot be written is lost.
[[noreturn]] void carry(int from) {
  ::prctl(PR_SET_NAME, "flightd-log");
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) static_cast<void>(std::signal(number, SIG_IGN));
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::dup2(from, STDIN_FILENO);
  close_inherited(STDERR_FILENO);
  std::array<char, 4096> text{};
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) ::_exit(0);
    for (ssize_t at = 0; at < count;) {
      const ssize_t written =
          ::write(STDOUT_FILENO, text.data() + at, static_cast<std::size_t>(count) - static_cast<std::size_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      at += written;
    }
  }
}

}  // namespace

void relay_output() {
  for (const int unused : {STDIN_FILENO, STDOUT_FILENO}) {
    if (!is_on_server(unused)) continue;
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (null) ::dup2(null.get(), unused);
  }
  if (!is_on_server(STDERR_FILENO)) return;
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  const UniqueFd out(ends[0]), in(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) carry(out.get());
  if (child > 0) ::dup2(in.get(), STDERR_FILENO);
}

}  // namespace flight
