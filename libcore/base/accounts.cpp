// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/accounts.hpp"

#include <grp.h>
#include <pwd.h>

#include <cerrno>

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

}  // namespace

Result<std::optional<UserAccount>> user_named(const std::string& name) {
  errno = 0;
  if (const passwd* found = ::getpwnam(name.c_str()))
    return UserAccount{.uid = found->pw_uid, .gid = found->pw_gid, .name = found->pw_name};
  if (is_lookup_error(errno)) return sys_error(errno, "look up the user {}", name);
  return std::nullopt;
}

Result<std::optional<gid_t>> group_named(const std::string& name) {
  errno = 0;
  if (const group* found = ::getgrnam(name.c_str())) return found->gr_gid;
  if (is_lookup_error(errno)) return sys_error(errno, "look up the group {}", name);
  return std::nullopt;
}

}  // namespace flight
