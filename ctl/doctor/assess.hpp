// SPDX-License-Identifier: Apache-2.0
// From facts to findings: what each value means for flightd, and what to do about it. Pure functions of plain values,
// so tests can describe any kernel. `fail`: flightd cannot work, or the installed flightd does not run; `warn`: a
// snapshot is incomplete or may be late; `note`: no action needed.
#pragma once

#include <vector>

#include "ctl/doctor/facts.hpp"
#include "libcore/control/findings.hpp"

namespace flight::ctl {

using Findings = std::vector<Finding>;

[[nodiscard]] Findings assess_kernel(const KernelFacts& kernel);
[[nodiscard]] Findings assess_install(const InstallFacts& install);
[[nodiscard]] Findings assess_daemon(const DaemonFacts& daemon, const InstallFacts& install);
// Whether the broker has CAP_SYS_ADMIN, and whether this kernel requires it.
[[nodiscard]] Finding assess_sys_admin(const Facts& facts);
[[nodiscard]] Findings assess_store(const StoreFacts& store);
[[nodiscard]] Findings assess(const Facts& facts);

}  // namespace flight::ctl
