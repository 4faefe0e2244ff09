// SPDX-License-Identifier: Apache-2.0
// A snapshot's sidecar, data and kernel symbols, for the commands that show its stacks. The data is read where it is if
// this process may, otherwise it is fetched into memory.
#pragma once

#include <string>

#include "ctl/commands.hpp"
#include "ctl/daemon_call.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

struct Profiled {
  Sidecar sidecar;
  FileReader data;
  std::string kallsyms;     // empty: there is none
  std::string no_kallsyms;  // why; printable
};

[[nodiscard]] Answer<Profiled> open_profiled(const Common& common, const std::string& id);

}  // namespace flight::ctl
