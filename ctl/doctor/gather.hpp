// SPDX-License-Identifier: Apache-2.0
// Looks at this machine. Nothing is changed: events that are opened are closed again. Whatever is missing, refused or
// does not answer within a few seconds is a fact, too.
#pragma once

#include "ctl/commands.hpp"
#include "ctl/doctor/facts.hpp"

namespace flight::ctl {

[[nodiscard]] KernelFacts gather_kernel();
// Opens events as this process may, and once without CAP_SYS_ADMIN.
[[nodiscard]] EventProbe probe_events();
[[nodiscard]] ProcessFacts gather_process(pid_t pid);
// Who answers on the socket, and its broker.
[[nodiscard]] DaemonFacts gather_daemon(const Common& common);
[[nodiscard]] InstallFacts gather_install();
[[nodiscard]] StoreFacts gather_store(const Common& common, const DaemonFacts& daemon);

}  // namespace flight::ctl
