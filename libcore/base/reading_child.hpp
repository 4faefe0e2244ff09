// SPDX-License-Identifier: Apache-2.0
// Starts a program that reads files in place of this one, with the same rights. It gets one descriptor, as its stdout,
// beside this program's stdin and stderr: all others must be O_CLOEXEC. It shares no memory with this process, which
// may have threads and large mappings.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

// `arguments` begin with the name. CAP_DAC_READ_SEARCH is passed on if the calling thread has it; no other capability
// is, except to root's program. EAGAIN, ENOMEM: no task or no memory is left.
[[nodiscard]] Result<pid_t> start_reading_child(const std::string& program, std::vector<std::string> arguments,
                                                int out);

}  // namespace flight
