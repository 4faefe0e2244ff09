// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/peer.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "libcore/base/files.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight::daemon {
namespace {

constexpr std::size_t kMaxGroups = 65536;  // the kernel's NGROUPS_MAX

Result<std::vector<gid_t>> groups_of(int socket_fd) {
  std::vector<gid_t> groups(32);
  for (;;) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes) == 0) {
      groups.resize(bytes / sizeof(gid_t));
      return groups;
    }
    // ERANGE: `bytes` is the required size.
    const std::size_t needed = bytes / sizeof(gid_t);
    if (errno != ERANGE || needed <= groups.size() || needed > kMaxGroups)
      return sys_error(errno, "reading a client's groups (SO_PEERGROUPS)");
    groups.resize(needed);
  }
}

#ifdef SO_PEERPIDFD
constexpr int kPeerPidfd = SO_PEERPIDFD;
#else
constexpr int kPeerPidfd = 77;  // as in asm-generic/socket.h; glibc 2.36 does not have it
#endif

// Whether the client's process still has its pid. fdinfo of a pidfd has -1 if it was reaped; before 6.16 it has no
// pidfd then.
bool has_pid_still(int socket_fd, pid_t pid) {
  int number = -1;
  socklen_t size = sizeof number;
  if (::getsockopt(socket_fd, SOL_SOCKET, kPeerPidfd, &number, &size) != 0) return errno == ENOPROTOOPT;
  const UniqueFd process(number);
  const auto info = read_file(fmt::format("/proc/self/fdinfo/{}", process.get()));
  return info && info->find(fmt::format("\nPid:\t{}\n", pid)) != std::string::npos;
}

bool is_member(const Caller& caller, const std::optional<gid_t>& group) {
  return group &&
         (caller.gid == *group || std::find(caller.groups.begin(), caller.groups.end(), *group) != caller.groups.end());
}

}  // namespace

// The name is read first: if the process has its pid afterwards, it had it then.
std::optional<std::string> peer_comm(int socket_fd, pid_t pid, const std::string& root) {
  auto comm = read_line(fmt::format("{}/proc/{}/comm", root, pid));
  if (!has_pid_still(socket_fd, pid)) return std::nullopt;
  return comm ? plain_comm(std::move(*comm)) : std::string();
}

std::string plain_comm(std::string comm) {
  for (char& c : comm)
    if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte >= 0x7f) c = '?';
  return comm;
}

std::string name_of(const Caller& caller) {
  if (caller.comm.empty()) return fmt::format("process {} (uid {})", caller.pid, caller.uid);
  return fmt::format("{} (pid {}, uid {})", own_name(caller.comm), caller.pid, caller.uid);
}

Result<Caller> unnamed_peer_of(int socket_fd) {
  const auto credentials = peer_credentials(socket_fd);
  if (!credentials) return propagate(credentials.error());
  auto groups = groups_of(socket_fd);
  if (!groups) return propagate(groups.error());
  return Caller{.uid = credentials->uid,
                .gid = credentials->gid,
                .pid = credentials->pid,
                .comm = {},
                .groups = std::move(*groups),
                .has_ended = false};
}

Result<Caller> peer_of(int socket_fd) {
  auto caller = unnamed_peer_of(socket_fd);
  if (!caller) return caller;
  auto comm = peer_comm(socket_fd, caller->pid);
  caller->has_ended = !comm;
  if (comm) caller->comm = std::move(*comm);
  return caller;
}

bool ControlAccess::trusts(const Caller& caller) const {
  return caller.uid == 0 || caller.uid == own_uid || is_member(caller, group);
}

bool ControlAccess::may_fire(const Caller& caller) const { return trusts(caller) || is_member(caller, trigger_group); }

}  // namespace flight::daemon
