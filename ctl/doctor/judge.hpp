// SPDX-License-Identifier: Apache-2.0
// From facts to findings: what each value means for flightd, and what to do about it. Pure functions. `fail`: flightd
// cannot do its work, or what is installed does not run; `warn`: a snapshot is less than it should be, or may come
// late; `note`: good to know.
#pragma once

#include <vector>

#include "ctl/doctor/facts.hpp"
#include "libcore/control/findings.hpp"

namespace flight::ctl {

using Findings = std::vector<Finding>;

[[nodiscard]] Findings judge_kernel(const KernelFacts& kernel);
[[nodiscard]] Findings judge_install(const InstallFacts& install);
[[nodiscard]] Findings judge_daemon(const DaemonFacts& daemon, const InstallFacts& install);
// Who holds CAP_SYS_ADMIN, and whether this kernel asks for it.
[[nodiscard]] Finding judge_sys_admin(const Facts& facts);
[[nodiscard]] Findings judge_store(const StoreFacts& store);
[[nodiscard]] Findings judge(const Facts& facts);

}  // namespace flight::ctl
