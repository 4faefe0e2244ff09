// SPDX-License-Identifier: Apache-2.0
// The error of a process that could not be started, with what to do about it.
#pragma once

#include <string_view>

#include "libcore/base/result.hpp"

namespace flight {

// `process`: which one, and what it is for: "the process that …". `error_number`: of fork(2) or posix_spawn(3).
[[nodiscard]] Failure not_started(int error_number, std::string_view process);

}  // namespace flight
