// SPDX-License-Identifier: Apache-2.0
// Fetches the kernel symbols (/proc/kallsyms) of a snapshot's boot: perf needs them to name kernel functions after a
// reboot or on another machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/commands.hpp"
#include "ctl/daemon_call.hpp"

namespace flight::ctl {

enum class KernelSymbols : std::uint8_t {
  none,
  if_there,
  wait,  // a few seconds at most
};

// For the snapshot with this id. flightd writes the symbols after it has reported the snapshot; for a snapshot of the
// current boot (`boot_id` is this machine's, or --host is given) `wait` waits for them.
[[nodiscard]] Answer<std::vector<std::byte>> fetch_kallsyms(const Common& common, const std::string& id,
                                                            const std::string& boot_id,
                                                            KernelSymbols how = KernelSymbols::wait);

}  // namespace flight::ctl
