// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/process_owner.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "libcore/base/files.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {
namespace {

// 0: it cannot be read.
ino_t user_namespace_of(const std::string& process) {
  struct stat status {};
  return ::stat((process + "/ns/user").c_str(), &status) == 0 ? status.st_ino : 0;
}

// The owner of the outermost user namespace below this program's: a user has 65,536 uids in those that he makes.
std::optional<uid_t> owner_of_namespace(const std::string& process, ino_t own) {
  std::optional<uid_t> owner;
  UniqueFd space(::open((process + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  while (space && ::fstat(space.get(), &status) == 0 && status.st_ino != own) {
    uid_t uid = 0;
    if (::ioctl(space.get(), NS_GET_OWNER_UID, &uid) != 0) break;
    if (uid != 0) owner = uid;  // root's own, of a container: the uid there
    space.reset(::ioctl(space.get(), NS_GET_PARENT));
  }
  return owner;
}

// The real uid. /proc/PID belongs to the effective one, or to root if the process may not be dumped, as everybody can
// ask for.
uid_t real_uid(const std::string& process) {
  const auto status = read_file(process + "/status");
  const std::size_t at = status ? status->find("\nUid:\t") : std::string::npos;
  return at == std::string::npos ? 0 : static_cast<uid_t>(std::strtoul(status->c_str() + at + 6, nullptr, 10));
}

}  // namespace

std::optional<uid_t> owner_if_there(std::uint32_t pid) {
  static const ino_t kOwn = user_namespace_of("/proc/self");
  const std::string process = fmt::format("/proc/{}", pid);
  struct stat status {};
  if (::stat(process.c_str(), &status) != 0) return std::nullopt;
  const ino_t space = user_namespace_of(process);
  if (space == 0 || space == kOwn) return status.st_uid != 0 ? status.st_uid : real_uid(process);
  return owner_of_namespace(process, kOwn).value_or(status.st_uid);
}

uid_t owner_of(std::uint32_t pid) { return owner_if_there(pid).value_or(0); }

Presence read_stat_of_owner(std::uint32_t pid, ProcessStat& out) {
  const Presence presence = read_stat(pid, out);
  if (presence == Presence::there && !out.is_kernel_thread) out.uid = owner_of(pid);
  return presence;
}

}  // namespace flight::broker
