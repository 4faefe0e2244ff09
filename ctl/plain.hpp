// SPDX-License-Identifier: Apache-2.0
// Writes a snapshot's file without compression (libcore/perfdata/plain.hpp).
#pragma once

#include <string>

#include "ctl/commands.hpp"
#include "ctl/daemon_call.hpp"

namespace flight::ctl {

// As fetch(), but one file also of data that is a directory. The compressed file, and for a pipe the other one, too, is
// first in a nameless file in $TMPDIR
// (/var/tmp).
[[nodiscard]] Answer<std::string> fetch_plain(const Common& common, const std::string& id, const OutputFile& target);

}  // namespace flight::ctl
