// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/accounts.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>

#include <cerrno>

#include "libcore/base/unique_fd.hpp"

namespace flight {
namespace {

// getpwnam(3) lists other numbers that only mean that the name was not found.
bool is_lookup_error(int error_number) {
  switch (error_number) {
    case EINTR:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ETIMEDOUT:
    case EAGAIN:
      return true;
    default:
      return false;
  }
}

// The last source in nsswitch.conf decides: if `files` cannot open its file, and the next source does not know the
// name, the C library says that there is no such name. So this looks whether `files` can.
int why_not_found(int error_number, const char* file) {
  if (is_lookup_error(error_number)) return error_number;
  const UniqueFd opened(::open(file, O_RDONLY | O_CLOEXEC));
  const int now = opened ? 0 : errno;
  return is_lookup_error(now) ? now : 0;
}

}  // namespace

Result<std::optional<UserAccount>> user_named(const std::string& name) {
  errno = 0;
  if (const passwd* found = ::getpwnam(name.c_str()))
    return UserAccount{.uid = found->pw_uid, .gid = found->pw_gid, .name = found->pw_name};
  if (const int why = why_not_found(errno, "/etc/passwd"); why != 0) return sys_error(why, "look up the user {}", name);
  return std::nullopt;
}

Result<std::optional<gid_t>> group_named(const std::string& name) {
  errno = 0;
  if (const group* found = ::getgrnam(name.c_str())) return found->gr_gid;
  if (const int why = why_not_found(errno, "/etc/group"); why != 0) return sys_error(why, "look up the group {}", name);
  return std::nullopt;
}

}  // namespace flight
