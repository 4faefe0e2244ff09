// SPDX-License-Identifier: Apache-2.0
// Looks up users and groups by name. A name that does not exist is a result. One that cannot be looked up is an error
// (no descriptor or memory is left, a directory server does not answer): it may exist. One thread, see getpwnam(3).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "libcore/base/result.hpp"

namespace flight {

struct UserAccount {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string name;
};
// nullopt: there is no such user, or group.
[[nodiscard]] Result<std::optional<UserAccount>> user_named(const std::string& name);
[[nodiscard]] Result<std::optional<gid_t>> group_named(const std::string& name);

}  // namespace flight
