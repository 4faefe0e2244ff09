// SPDX-License-Identifier: Apache-2.0
// Whether the file system of a directory answers, for a check that must end. A look at one whose server hangs (NFS,
// FUSE) may not end, and the task that waits there ignores SIGKILL. So another process looks, and is left behind.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>

#include "libcore/base/result.hpp"

namespace flight::daemon {

inline constexpr std::chrono::milliseconds kFolderAnswers{5'000};

void walk_path(const std::string& folder);  // looks up each part of its path

// ETIMEDOUT with the first of `folders` that `look` has not returned for within `limit`. Other errors of a look are for
// those that use the directory.
[[nodiscard]] Result<void> check_answers(std::span<const std::string> folders,
                                         std::chrono::milliseconds limit = kFolderAnswers,
                                         const std::function<void(const std::string&)>& look = &walk_path);

}  // namespace flight::daemon
