// SPDX-License-Identifier: Apache-2.0
// Gathers the facts of this machine. It changes nothing: opened events are closed again. A file that is missing, a
// refusal, and no answer within a few seconds are facts, too.
#pragma once

#include "ctl/commands.hpp"
#include "ctl/doctor/facts.hpp"

namespace flight::ctl {

inline constexpr std::size_t kMaxProcBytes = 1U << 20U;  // of one file in /proc

[[nodiscard]] KernelFacts gather_kernel();
// Opens events with the privileges of this process, and once without CAP_SYS_ADMIN.
[[nodiscard]] EventProbe probe_events();
[[nodiscard]] ProcessFacts gather_process(pid_t pid);
// The known OOM killers of user space that run here.
[[nodiscard]] std::vector<std::string> running_oom_killers();
// The process that listens on the socket, and its broker.
[[nodiscard]] DaemonFacts gather_daemon(const Common& common);
[[nodiscard]] InstallFacts gather_install();
[[nodiscard]] StoreFacts gather_store(const Common& common, const DaemonFacts& daemon);

}  // namespace flight::ctl
