// SPDX-License-Identifier: Apache-2.0
// STATE, STATE/snapshots and RUNTIME: makes them, locks them against a second flightd, gives them to flightd's user.
// Each is opened once and used by descriptor: its owner may rename it meanwhile.
#pragma once

#include <string>
#include <vector>

#include "daemon/privileges.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

inline constexpr const char* kLockName = "flightd.lock";  // in both

// While this object lives, no other flightd uses RUNTIME. The lock contains the pid, and is empty after a clean end.
class RuntimeFolder {
 public:
  RuntimeFolder() = default;
  RuntimeFolder(RuntimeFolder&&) = default;
  RuntimeFolder& operator=(RuntimeFolder&&) = default;
  ~RuntimeFolder();

  UniqueFd lock;
  std::vector<std::string> warnings;  // what the file system refused: flightd records all the same
  std::string not_given;              // of these, that it could not be given to flightd's user; empty: it was
};

// The same for STATE, with its snapshots.
struct StateFolder {
  UniqueFd lock;
  std::vector<std::string> warnings;
};

// Each creates what is missing (not the parent directories) and gives it to `identity`: STATE and RUNTIME with mode
// 0755, STATE/snapshots with 0770. Nothing is changed before the lock is held. A read-only file system, one without
// locks or owners, and a full one for RUNTIME, is a warning. EWOULDBLOCK: a second flightd; the error has the pid of
// the first. EEXIST: the directory, or something in it, belongs to another program or user. ENOENT, EACCES and ENOSPC
// name the directory and what to do.
[[nodiscard]] Result<RuntimeFolder> take_runtime_folder(const std::string& path, const Identity& identity);
[[nodiscard]] Result<StateFolder> take_state_folder(const std::string& path, const Identity& identity);

// `error`: flightd's user could not use RUNTIME. If that can be because it could not be given to that user, says so.
[[nodiscard]] Error with_refused_chown(Error error, const RuntimeFolder& runtime);

// `error`: the reason why STATE was not taken. True: flightd must not start, because the directory belongs to another
// user or leads elsewhere. False: the disk is missing, read-only or broken; that can change, so flightd records and
// tries again.
[[nodiscard]] bool forbids_start(const Error& error);

}  // namespace flight::daemon
