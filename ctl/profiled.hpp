// SPDX-License-Identifier: Apache-2.0
// A snapshot's sidecar, data and kernel symbols, for the commands that show its stacks. The data is read where it is if
// this process may, otherwise it is fetched into memory.
#pragma once

#include <optional>
#include <string>

#include "ctl/commands.hpp"
#include "ctl/daemon_call.hpp"
#include "ctl/kallsyms.hpp"
#include "libcore/base/result.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/profile/sched.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

struct Profiled {
  Sidecar sidecar;
  FileReader data;
  std::string kallsyms;     // empty: there is none
  std::string no_kallsyms;  // why; printable
};

[[nodiscard]] Answer<Profiled> open_profiled(const Common& common, const std::string& id,
                                             KernelSymbols symbols = KernelSymbols::wait);
// The data where it is; nullopt: this process may not read it, or it is on another machine.
[[nodiscard]] std::optional<FileReader> data_in_place(const Common& common, const Sidecar& sidecar);
// Who waited and who ran, with these lanes, in the time that all rings have; nullopt: the snapshot has no switches.
[[nodiscard]] Result<std::optional<SchedProfile>> read_scheduling(const Profiled& snapshot,
                                                                  const SchedLanesOrder& lanes);
// Prints an error of SnapshotProfile::read(), returns the exit code: an event that is not there is a usage error.
[[nodiscard]] int complain_of_profile(const Common& common, const Error& error);

}  // namespace flight::ctl
