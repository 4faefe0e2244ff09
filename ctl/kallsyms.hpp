// SPDX-License-Identifier: Apache-2.0
// The kernel's symbols of a snapshot's boot, as /proc/kallsyms had them: what perf needs to name kernel functions after
// a reboot, or on another machine.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ctl/commands.hpp"
#include "ctl/daemon_call.hpp"

namespace flight::ctl {

// Of the snapshot with this id. They are written behind the snapshot's answer; of one that was just taken (`boot_id` is
// this machine's, or may be that of --host) they are waited for, a few seconds at most.
[[nodiscard]] Answer<std::vector<std::byte>> fetch_kallsyms(const Common& common, const std::string& id,
                                                            const std::string& boot_id);

}  // namespace flight::ctl
