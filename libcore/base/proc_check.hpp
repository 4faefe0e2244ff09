// SPDX-License-Identifier: Apache-2.0
// Whether /proc itself answers. In a container a server's file system (FUSE) can be mounted there, and a process that
// looks into it while the server hangs cannot be ended. Nothing says what is mounted there but /proc. So what is not
// the kernel's, which has no file handles (name_to_handle_at(2)), is tried by a process that can be left behind. Where
// it is mounted over files below /proc, kernel_file.hpp is for that.
#pragma once

#include <chrono>

namespace flight {

inline constexpr std::chrono::milliseconds kProcPatience(2000);

// One thread, and before anything else looks into /proc.
[[nodiscard]] bool proc_answers(std::chrono::milliseconds patience);
// Returns when it does. If it does not, the process ends with status 1 and a message; if it `stays`, as a service of
// systemd must, the reason is in its status until /proc answers.
void await_proc(bool stays, std::chrono::milliseconds patience = kProcPatience);

}  // namespace flight
