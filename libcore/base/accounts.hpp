// SPDX-License-Identifier: Apache-2.0
// Looks up users and groups. A name that does not exist is a result. One that cannot be looked up is an error (no
// descriptor or memory is left, a directory server does not answer): it may exist. One thread, see getpwnam(3).
//
// The C library may ask servers for them (nsswitch.conf(5)), and even /etc/passwd can be on one that hangs. So a
// process of its own asks, and is killed and left behind if it has no answer in time: ETIMEDOUT. For as long again, and
// until that process has ended, each look-up in the same database fails at once. Without memory or a task for it, this
// process asks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "libcore/base/result.hpp"

namespace flight {

struct UserAccount {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;
};
struct GroupAccount {
  gid_t gid = 0;
  bool lists_user = false;  // the one that was asked for, as its own group or as a member
};
inline constexpr std::chrono::milliseconds kAccountPatience(5000);

// nullopt: there is no such user, or group.
[[nodiscard]] Result<std::optional<UserAccount>> user_named(const std::string& name,
                                                            std::chrono::milliseconds patience = kAccountPatience);
[[nodiscard]] Result<std::optional<UserAccount>> user_numbered(uid_t uid,
                                                               std::chrono::milliseconds patience = kAccountPatience);
[[nodiscard]] Result<std::optional<gid_t>> group_named(const std::string& name,
                                                       std::chrono::milliseconds patience = kAccountPatience);
[[nodiscard]] Result<std::optional<GroupAccount>> group_with_user(
    const std::string& name, uid_t uid, std::chrono::milliseconds patience = kAccountPatience);

}  // namespace flight
