// SPDX-License-Identifier: Apache-2.0
// Whether the file system of a directory answers, for a check that must end. A look at one whose server hangs (NFS,
// FUSE) may not end, and the task that waits there ignores SIGKILL. So another process looks, and is left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <span>
#include <string>

#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::chrono::milliseconds kFolderAnswers{5'000};

void walk_path(const std::string& folder);  // looks up each part of its path
void look_into(const std::string& folder);  // opens it, too

// ETIMEDOUT with the first of `folders` that `look` has not returned for within `limit`. Other errors of a look are for
// those that use the directory. `left_behind`: the process that waits there then, and is to be reaped. ECANCELED if
// `stop_fd` becomes readable meanwhile; -1: none. Not in a program with threads: it forks.
[[nodiscard]] Result<void> check_answers(std::span<const std::string> folders,
                                         std::chrono::milliseconds limit = kFolderAnswers,
                                         const std::function<void(const std::string&)>& look = &walk_path,
                                         pid_t* left_behind = nullptr, int stop_fd = -1);

// For attempts that are repeated: while the process that an earlier check left behind still waits, no other is started.
class FolderLook {
 public:
  // As check_answers(), of one directory.
  [[nodiscard]] Result<void> check(const std::string& folder, std::chrono::milliseconds limit = kFolderAnswers,
                                   const std::function<void(const std::string&)>& look = &look_into, int stop_fd = -1);

 private:
  pid_t left_behind_ = -1;
};

}  // namespace flight
