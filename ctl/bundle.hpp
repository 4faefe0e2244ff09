// SPDX-License-Identifier: Apache-2.0
// Everything that another machine needs to read a snapshot, in one tar:
//
//   STEM/STEM.perf.data  STEM/STEM.json  STEM/kallsyms  STEM/README
//
// Data that is a directory is one here, too.
// STEM is the snapshot's name. The README has the command for perf.
#pragma once

#include <string>

#include "ctl/commands.hpp"
#include "ctl/daemon_call.hpp"

namespace flight::ctl {

// Writes to `target` as fetch() does; to STEM.tar if it has no path. Returns the path.
[[nodiscard]] Answer<std::string> fetch_bundle(const Common& common, const std::string& id, const OutputFile& target);

}  // namespace flight::ctl
